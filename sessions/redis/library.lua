-- All that a shard's Redis does with sessions, in one atomic step each. The contract is in sessions/store.py.
--
-- run(keys, args): args[1] is the operation, keys[1] the shard's fence. Answers {'+', …} or {'-', CODE, details…}; a refusal
-- has changed nothing but the fence. Numbers become text by `whole`, since Lua's own way rounds to 14 digits.

local CLOCK_TOLERANCE_MS = 50

local function whole(n) return string.format('%.0f', n) end

-- The server's run id never changes while it runs, so as a function it is read once. The replication id may change at any time.
local run_id
local function identity()
  run_id = run_id or redis.call('INFO', 'server'):match('run_id:(%x+)')
  return run_id .. ':' .. redis.call('INFO', 'replication'):match('master_replid:(%x+)')
end

local function now_ms(keys)
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function load_fence(keys)
  local row = redis.call('HMGET', keys[1], 'epoch', 'granted_to', 'deadline', 'revoked', 'high_water', 'gseq', 'fork_gseq')
  return {
    epoch = tonumber(row[1] or 0), granted_to = row[2] or '', deadline = tonumber(row[3] or 0), revoked = row[4] == '1',
    high_water = tonumber(row[5] or 0), gseq = tonumber(row[6] or 0), fork_gseq = tonumber(row[7] or 0),
    now = now_ms(keys), own = identity(),
  }
end

-- The first two checks, which need no caller. Changes nothing.
local function untrusted(fence)
  if fence.granted_to == '' or fence.granted_to ~= fence.own then return {'-', 'NOT_GRANTED', fence.epoch} end
  local behind = fence.high_water - fence.now
  if behind > CLOCK_TOLERANCE_MS then return {'-', 'CLOCK_BACK', fence.epoch, behind} end
  return nil
end

local function revoke_now(keys) redis.call('HSET', keys[1], 'deadline', '0', 'revoked', '1') end

-- The high-water mark is kept on every ending from the third check on. For a repeated write that is the nudge, too: a write,
-- so that WAIT behind it waits for the replicas. On a fresh connection it would have nothing to wait for, and succeed.
local function ending(keys, fence, answer)
  redis.call('HSET', keys[1], 'high_water', whole(math.max(fence.high_water, fence.now)))
  return answer
end

-- The checks of every write. Returns the fence, and the refusal if there is one.
local function enter(keys, epoch)
  local fence = load_fence(keys)
  local refusal = untrusted(fence)
  if refusal then
    if refusal[2] == 'CLOCK_BACK' then revoke_now(keys) end
    return fence, refusal
  end
  if epoch < fence.epoch then return fence, ending(keys, fence, {'-', 'FENCED', fence.epoch, epoch}) end
  if epoch > fence.epoch then return fence, ending(keys, fence, {'-', 'STORE_BEHIND', fence.epoch, epoch}) end
  if fence.now >= fence.deadline then return fence, ending(keys, fence, {'-', 'LEASE_EXPIRED', fence.epoch}) end
  return fence, nil
end

local function count_write(keys, fence)
  fence.gseq = fence.gseq + 1
  redis.call('HSET', keys[1], 'gseq', whole(fence.gseq), 'high_water', whole(math.max(fence.high_water, fence.now)))
end

-- Why something is not there, as far as this store may say so.
local function absent(keys, gone_key)
  local fence = load_fence(keys)
  local refusal = untrusted(fence)
  if refusal then return refusal end
  if fence.now >= fence.deadline then return {'-', 'LEASE_EXPIRED', fence.epoch} end
  local gone = gone_key and redis.call('GET', gone_key)
  if not gone then return {'-', 'NO_SESSION'} end
  local reason, at = gone:match('^(%a+) (%d+) ')
  return {'-', 'GONE', reason, at}
end

-- State. Each scope is a hash, whose field '' holds the bytes of all keys and values.

local function read_pairs(args, at)
  local scopes = {}
  for scope = 1, 3 do
    local pairs_here, n = {}, tonumber(args[at])
    for i = 1, n do pairs_here[i] = {args[at + 2 * i - 1], args[at + 2 * i]} end
    scopes[scope], at = pairs_here, at + 2 * n + 1
  end
  return scopes, at
end

local function measure(key, changes, limit)
  local size = tonumber(redis.call('HGET', key, '') or 0)
  for _, change in ipairs(changes) do
    local old = redis.call('HSTRLEN', key, change[1]) -- JSON is never empty: 0 means that there is none
    size = size + #change[2] + (old > 0 and -old or #change[1])
  end
  if size > limit then return size, {'-', 'LIMIT', 'state_bytes', limit, size} end
  return size, nil
end

-- All scopes are measured before anything is written.
local function measure_all(state_keys, scopes, limit)
  local sizes = {}
  for scope, key in ipairs(state_keys) do
    local refusal
    if #scopes[scope] > 0 then
      sizes[scope], refusal = measure(key, scopes[scope], limit)
      if refusal then return nil, refusal end
    end
  end
  return sizes, nil
end

local function merge(state_keys, scopes, sizes)
  for scope, key in ipairs(state_keys) do
    for _, change in ipairs(scopes[scope]) do redis.call('HSET', key, change[1], change[2]) end
    if sizes[scope] then redis.call('HSET', key, '', whole(sizes[scope])) end
  end
end

-- Sessions. Their keys: 1 fence, 2 meta, 3 events, 4 ids, 5 app's, 6 user's, 7 own state, 8 index, 9 idle, 10 gone.

local META = {'version', 'epoch', 'seq', 'events', 'bytes', 'created', 'updated', 'lost'}

local function state_keys_of(keys) return {keys[5], keys[6], keys[7]} end

local operations = {}

-- args: epoch, write id, index member, idle member, state limit, pairs
function operations.create(keys, args)
  local fence, refusal = enter(keys, tonumber(args[2]))
  if refusal then return refusal end
  local remaining = whole(fence.deadline - fence.now)
  local row = redis.call('HMGET', keys[2], 'write_id', 'created_version', 'created_gseq', 'version')
  if row[1] then
    if row[1] ~= args[3] then return ending(keys, fence, {'-', 'EXISTS', row[4]}) end
    return ending(keys, fence, {'+', row[3], remaining, 1, row[2]})
  end
  local scopes = read_pairs(args, 7)
  local sizes, over = measure_all(state_keys_of(keys), scopes, tonumber(args[6]))
  if over then return ending(keys, fence, over) end
  local version, seq = '0', '0'
  local gone = redis.call('GET', keys[10])
  if gone then
    local last_version
    last_version, seq = gone:match(' (%d+) (%d+)$')
    version = whole(last_version + 1)
  end
  count_write(keys, fence)
  merge(state_keys_of(keys), scopes, sizes)
  local now = whole(fence.now)
  redis.call('HSET', keys[2], 'write_id', args[3], 'created_version', version, 'created_gseq', whole(fence.gseq),
    'version', version, 'epoch', '0', 'seq', seq, 'events', '0', 'bytes', '0', 'created', now, 'updated', now)
  redis.call('ZADD', keys[8], 0, args[4])
  redis.call('ZADD', keys[9], now, args[5])
  return {'+', whole(fence.gseq), remaining, 0, version}
end

-- What the ids say: nil if none is stored, else the answer.
local function stored_before(keys, fence, ids, remaining)
  local found, first, last, gseq, version = 0, nil, nil, nil, nil
  local same = true
  for i, id in ipairs(ids) do
    local entry = redis.call('HGET', keys[4], id)
    if entry then
      found = found + 1
      local position, v, g, part, parts = entry:match('^(%S+) (%d+) (%d+) (%d+) (%d+)$')
      same = same and (version == nil or version == v) and tonumber(part) == i - 1 and tonumber(parts) == #ids
      first, last, version, gseq = first or position, position, v, g
    end
  end
  if found == 0 then return nil end
  if found < #ids or not same then return {'-', 'MIXED_IDS', found, #ids} end
  return {'+', gseq, remaining, 1, version, first, last}
end

-- args: epoch, expected version or '', idle member, limits (events, bytes, state), number, (id, invocation, author, tag, body)…,
-- pairs
function operations.append(keys, args)
  local fence, refusal = enter(keys, tonumber(args[2]))
  if refusal then return refusal end
  local row = redis.call('HMGET', keys[2], 'version', 'seq', 'events', 'bytes')
  if not row[1] then return ending(keys, fence, absent(keys, keys[10])) end
  local remaining = whole(fence.deadline - fence.now)
  local number, ids, bytes = tonumber(args[8]), {}, tonumber(row[4])
  for i = 1, number do
    ids[i] = args[4 + 5 * i]
    bytes = bytes + #args[8 + 5 * i]
  end
  local answer = stored_before(keys, fence, ids, remaining)
  if answer then return ending(keys, fence, answer) end
  local version, seq, events = tonumber(row[1]), tonumber(row[2]), row[3] + number
  if args[3] ~= '' and tonumber(args[3]) ~= version then
    return ending(keys, fence, {'-', 'CONFLICT', version, args[3]})
  end
  if events > tonumber(args[5]) then return ending(keys, fence, {'-', 'LIMIT', 'session_events', args[5], events}) end
  if bytes > tonumber(args[6]) then return ending(keys, fence, {'-', 'LIMIT', 'session_bytes', args[6], bytes}) end
  local scopes = read_pairs(args, 9 + 5 * number)
  local sizes, over = measure_all(state_keys_of(keys), scopes, tonumber(args[7]))
  if over then return ending(keys, fence, over) end

  count_write(keys, fence)
  version = whole(version + 1)
  local gseq, now, epoch = whole(fence.gseq), whole(fence.now), whole(fence.epoch)
  local first, last
  for i = 1, number do
    local at = 4 + 5 * i
    last = epoch .. '-' .. whole(seq + i)
    first = first or last
    redis.call('XADD', keys[3], last, 'id', args[at], 'v', version, 'g', gseq, 't', now,
      'i', args[at + 1], 'a', args[at + 2], 'k', args[at + 3], 'b', args[at + 4])
    redis.call('HSET', keys[4], args[at], table.concat({last, version, gseq, i - 1, number}, ' '))
  end
  merge(state_keys_of(keys), scopes, sizes)
  redis.call('HSET', keys[2], 'version', version, 'epoch', epoch, 'seq', whole(seq + number),
    'events', whole(events), 'bytes', whole(bytes), 'updated', now)
  redis.call('ZADD', keys[9], now, args[4])
  return {'+', gseq, remaining, 0, version, first, last}
end

-- args: epoch, reason, idle before or '', index member, idle member, how long to remember in ms
function operations.delete(keys, args)
  local fence, refusal = enter(keys, tonumber(args[2]))
  if refusal then return refusal end
  local remaining = whole(fence.deadline - fence.now)
  local row = redis.call('HMGET', keys[2], 'version', 'seq', 'updated')
  if not row[1] or (args[4] ~= '' and tonumber(row[3]) >= tonumber(args[4])) then
    return ending(keys, fence, {'+', whole(fence.gseq), remaining, 0, 0})
  end
  count_write(keys, fence)
  redis.call('UNLINK', keys[2], keys[3], keys[4], keys[7])
  redis.call('ZREM', keys[8], args[5])
  redis.call('ZREM', keys[9], args[6])
  redis.call('SET', keys[10], table.concat({args[3], whole(fence.now), whole(fence.gseq), row[1], row[2]}, ' '), 'PX', args[7])
  return {'+', whole(fence.gseq), remaining, 0, 1}
end

-- What a promotion lost of a session that is here, or that one is not here at all. args: epoch, lost epoch, events, version, seq,
-- how long to remember in ms
function operations.mark_lost(keys, args)
  local fence, refusal = enter(keys, tonumber(args[2]))
  if refusal then return refusal end
  if redis.call('EXISTS', keys[2]) == 1 then
    redis.call('HSET', keys[2], 'lost', args[3] .. ' ' .. args[4])
  elseif redis.call('EXISTS', keys[10]) == 0 then
    redis.call('SET', keys[10], table.concat({'lost', whole(fence.now), whole(fence.gseq), args[5], args[6]}, ' '), 'PX', args[7])
  end
  return ending(keys, fence, {'+'})
end

-- Only the checks, for what is done in several steps that are checked again. args: epoch
function operations.check(keys, args)
  local fence, refusal = enter(keys, tonumber(args[2]))
  return refusal or ending(keys, fence, {'+'})
end

-- keys: fence, minutes, prefix of the minutes' hashes. args: epoch, (minute, field, value)…
function operations.add_counts(keys, args)
  local fence, refusal = enter(keys, tonumber(args[2]))
  if refusal then return refusal end
  for i = 3, #args, 3 do
    local key = keys[3] .. args[i]
    if tonumber(redis.call('HGET', key, args[i + 1]) or -1) < tonumber(args[i + 2]) then
      redis.call('HSET', key, args[i + 1], args[i + 2])
      redis.call('ZADD', keys[2], args[i], args[i])
    end
  end
  return ending(keys, fence, {'+'})
end

function operations.drop_counts(keys, args)
  local fence, refusal = enter(keys, tonumber(args[2]))
  if refusal then return refusal end
  local minutes = redis.call('ZRANGEBYSCORE', keys[2], '-inf', '(' .. args[3])
  for _, minute in ipairs(minutes) do
    redis.call('UNLINK', keys[3] .. minute)
    redis.call('ZREM', keys[2], minute)
  end
  return ending(keys, fence, {'+', #minutes})
end

-- args: epoch, identity, deadline, longest lease
function operations.grant(keys, args)
  local fence = load_fence(keys)
  local epoch, to, deadline, longest = tonumber(args[2]), args[3], tonumber(args[4]), tonumber(args[5])
  if to ~= fence.own then return {'-', 'WRONG_STORE', fence.epoch, fence.own} end
  if epoch < fence.epoch or epoch < 1 then return {'-', 'STALE_EPOCH', fence.epoch, epoch} end
  local renewal = epoch == fence.epoch
  if renewal then
    if fence.granted_to ~= to then return {'-', 'EPOCH_REUSED', epoch} end
    if fence.revoked then return {'-', 'REVOKED', epoch} end
    local refusal = untrusted(fence)
    if refusal then
      revoke_now(keys)
      return refusal
    end
  end
  if deadline - fence.now > longest then
    return {'-', 'DEADLINE_TOO_FAR', fence.epoch, deadline - fence.now, longest}
  end
  if renewal then
    deadline = math.max(deadline, fence.deadline)
    redis.call('HSET', keys[1], 'deadline', whole(deadline), 'high_water', whole(math.max(fence.high_water, fence.now)))
  else
    redis.call('HSET', keys[1], 'epoch', whole(epoch), 'granted_to', to, 'deadline', whole(deadline), 'revoked', '0',
      'high_water', whole(fence.now), 'fork_gseq', whole(fence.gseq))
  end
  return {'+', whole(epoch), whole(deadline), whole(fence.now)}
end

-- args: epoch
function operations.revoke(keys, args)
  local fence, epoch = load_fence(keys), tonumber(args[2])
  if epoch < fence.epoch or epoch < 1 then return {'-', 'STALE_EPOCH', fence.epoch, epoch} end
  if epoch > fence.epoch then
    redis.call('HSET', keys[1], 'epoch', whole(epoch), 'granted_to', fence.own, 'fork_gseq', whole(fence.gseq))
  end
  revoke_now(keys)
  return {'+', whole(fence.gseq)}
end

-- Reading. None of these writes, so a replica may run them.

local reads = {}

function reads.fence(keys, args)
  local fence = load_fence(keys)
  return {'+', fence.own, fence.granted_to, whole(fence.epoch), whole(fence.deadline), fence.revoked and '1' or '0',
    whole(fence.high_water), whole(fence.gseq), whole(fence.fork_gseq), whole(fence.now)}
end

function reads.info(keys, args)
  local row = redis.call('HMGET', keys[2], unpack(META))
  if not row[1] then return absent(keys, keys[10]) end
  return {'+', row}
end

-- args: first, last, number, 'old' or 'new'
function reads.page(keys, args)
  local row = redis.call('HMGET', keys[2], unpack(META))
  if not row[1] then return absent(keys, keys[10]) end
  if args[5] == 'new' then
    return {'+', row, redis.call('XREVRANGE', keys[3], args[3], args[2], 'COUNT', args[4])}
  end
  return {'+', row, redis.call('XRANGE', keys[3], args[2], args[3], 'COUNT', args[4])}
end

function reads.state(keys, args)
  local version = redis.call('HGET', keys[2], 'version')
  if not version then return absent(keys, keys[10]) end
  return {'+', version, redis.call('HGETALL', keys[5]), redis.call('HGETALL', keys[6]), redis.call('HGETALL', keys[7])}
end

-- keys: fence, app's state, user's state
function reads.shared(keys, args)
  return {'+', redis.call('HGETALL', keys[2]), redis.call('HGETALL', keys[3])}
end

-- args: event id
function reads.lookup(keys, args)
  local entry = redis.call('HGET', keys[4], args[2])
  if entry then return {'+', entry} end
  local why = absent(keys, nil)
  return why[2] == 'NO_SESSION' and {'+'} or why
end

-- keys: fence, index, prefix of the sessions' meta. args: first, last, number
function reads.list(keys, args)
  local found = {'+'}
  for _, member in ipairs(redis.call('ZRANGEBYLEX', keys[2], args[2], args[3], 'LIMIT', 0, args[4])) do
    found[#found + 1] = {member, redis.call('HMGET', keys[3] .. member, unpack(META))}
  end
  return found
end

-- keys: fence, idle. args: before, number
function reads.idle(keys, args)
  return {'+', redis.call('ZRANGEBYSCORE', keys[2], '-inf', '(' .. args[2], 'LIMIT', 0, args[3])}
end

-- keys: fence, minutes, prefix of the minutes' hashes. args: first, end, number. Answers the minutes' counts.
function reads.counts(keys, args)
  local found = {'+'}
  for _, minute in ipairs(redis.call('ZRANGEBYSCORE', keys[2], args[2], '(' .. args[3], 'LIMIT', 0, args[4])) do
    found[#found + 1] = {minute, redis.call('HGETALL', keys[3] .. minute)}
  end
  return found
end

local function run(keys, args) return (operations[args[1]] or reads[args[1]])(keys, args) end
