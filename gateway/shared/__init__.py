"""What the gateways of one region share through their region's Redis."""
