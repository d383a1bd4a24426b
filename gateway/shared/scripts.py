"""The board's atomic steps, as scripts for EVAL: each is the rule of the `llm` module that it names, in Redis.

Where a rule says otherwise here than there, a test finds it. Entries that cannot be read count as none and are written over; a
hold for a reason that only another version knows counts by its end.
"""

PUBLISH_NEWS = """
local state, at, again, life = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local old = redis.call('HGET', KEYS[1], ARGV[1])
local old_state, old_at = string.match(old or '', '^(%a+) (%S+) [01]$')
old_at = tonumber(old_at)
if old_at and old_at < math.huge and (old_state == 'open' or old_state == 'closed') then
  if state == 'open' and old_state == 'open' and again == '0' then return 0 end
  if tonumber(at) <= old_at then return 0 end
end
redis.call('HSET', KEYS[1], ARGV[1], state .. ' ' .. at .. ' ' .. again)
redis.call('PEXPIRE', KEYS[1], life)
return 1
"""
"""`llm.shared_state.supersedes`. KEYS: the hash. ARGV: name, state, at, again, milliseconds that the hash lives on."""

PUBLISH_HOLD = """
local old = redis.call('HGET', KEYS[1], ARGV[1])
local until_ = tonumber((string.match(old or '', '^[%a_]+ (%S+) %S+$')))
if until_ and until_ < math.huge and tonumber(ARGV[3]) <= until_ then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
"""
"""`llm.shared_holds.longer`. KEYS: the hash. ARGV: name, reason, until, at, milliseconds that the hash lives on."""

PRUNE = """
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then redis.call('HDEL', KEYS[1], ARGV[i]) end
end
return 0
"""
"""Remove entries that still are what somebody found to be over. KEYS: the hash. ARGV: name and value of each."""

LEASE = """
local who, ttl = ARGV[1], ARGV[2]
local holders = {}
for i, key in ipairs(KEYS) do
  local phase = ARGV[i + 2]
  local holder, passed, wanted_by = string.match(redis.call('GET', key) or '', '^(%S+) ([01]) (%S*)$')
  local renews = not holder or holder == who or holder == '*'
  if not holder then
    holder, passed, wanted_by = who, '0', ''
  elseif renews then
    if phase == 'near' or phase == 'probing' then
      holder, passed, wanted_by = who, '0', ''
    elseif holder == who and wanted_by ~= '' then
      if passed == '1' then holder = '*' else holder = wanted_by end
      passed, wanted_by = '1', ''
    end
  elseif phase == 'wanted' and wanted_by == '' then
    wanted_by = who
  end
  local value = holder .. ' ' .. passed .. ' ' .. wanted_by
  if renews then redis.call('SET', key, value, 'PX', ttl) else redis.call('SET', key, value, 'KEEPTTL') end
  holders[i] = holder
end
return holders
"""
"""`llm.shared_probes.decide` and `renews`. KEYS: the leases. ARGV: who, milliseconds of a lease, and each lease's phase."""
