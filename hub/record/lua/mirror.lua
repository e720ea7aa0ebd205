-- Write what the hashes lack, unless somebody else wrote since.
--
-- KEYS  main hash, stream of changes, then the other hashes.
-- ARGV  epoch; mirrored as the writer knows it; the seq that the hashes hold afterwards; packed table of the fields that are
--       left for later ('' if none); the seq up to which every field is written; the seq up to which the stream may be trimmed;
--       then for the main hash and each other: clear (0 or 1), number of deleted fields, fields, number of set fields, field, value ...
-- Answers 1, or 0 if nothing was written.
local main, stream = KEYS[1], KEYS[2]
local there = redis.call('HMGET', main, 'epoch', 'mirrored', 'last', 'closed')
if there[1] ~= ARGV[1] or there[2] ~= ARGV[2] or there[4] or tonumber(there[3]) < tonumber(ARGV[3]) then
  return 0
end

local SLICE = 1000 -- arguments that one command takes: Lua's stack is limited
local at = 7
local function slices(command, key, width)
  local count = tonumber(ARGV[at])
  at = at + 1
  local stop = at + count * width
  while at < stop do
    local next = math.min(at + SLICE, stop)
    redis.call(command, key, unpack(ARGV, at, next - 1))
    at = next
  end
end

for i = 2, #KEYS do
  local key = i == 2 and main or KEYS[i]
  local clear = ARGV[at] == '1'
  at = at + 1
  if clear then
    redis.call('UNLINK', key)
  end
  slices('HDEL', key, 1)
  slices('HSET', key, 2)
end

redis.call('HSET', main, 'mirrored', ARGV[3])
if ARGV[4] == '' then
  redis.call('HDEL', main, 'held')
else
  redis.call('HSET', main, 'held', ARGV[4])
end
local trim = math.min(tonumber(ARGV[5]), tonumber(ARGV[6]))
if trim > 0 then
  redis.call('XTRIM', stream, 'MINID', '~', string.format('%.0f-0', trim + 1))
end
return 1
