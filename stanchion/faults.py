"""Where a fault of the program's own happened, for the log."""

from __future__ import annotations


def place_of(error: BaseException) -> str | None:
    """File and line of the fault, without the values that a traceback would show."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
