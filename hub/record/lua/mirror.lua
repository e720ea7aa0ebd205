-- Write what the hashes of each of many contexts lack, unless somebody else wrote since. Each stands alone.
--
-- KEYS  the contexts' main hashes. A context's other keys have longer names and are in the same slot.
-- ARGV  for each context a msgpack list:
--         1-3  epoch; mirrored as the writer knows it; the seq that the hashes hold afterwards
--         4    packed table of the fields that are left for later, '' if none
--         5-6  the seq up to which every field is written; the seq up to which the stream may be trimmed
--         7-   for each hash that changes {end of its name, whether to clear it, deleted fields, {field, value ...}}
-- Answers for each context 1, 0 if nothing was written, or the text of an error.
local SLICE = 1000 -- arguments that one command takes: Lua's stack is limited

local function slices(command, key, items)
  for first = 1, #items, SLICE do
    redis.call(command, key, unpack(items, first, math.min(first + SLICE - 1, #items)))
  end
end

local function write(main, given)
  local epoch, mirrored, seq, held, complete, trim = unpack(given, 1, 6)
  local there = redis.call('HMGET', main, 'epoch', 'mirrored', 'last', 'closed')
  if there[1] ~= epoch or there[2] ~= mirrored or there[4] or tonumber(there[3]) < tonumber(seq) then
    return 0
  end
  for i = 7, #given do
    local name, clear, gone, fields = unpack(given[i], 1, 4)
    local key = main .. name
    if clear then
      redis.call('UNLINK', key)
    end
    slices('HDEL', key, gone)
    slices('HSET', key, fields)
  end
  redis.call('HSET', main, 'mirrored', seq)
  if held ~= '' then
    redis.call('HSET', main, 'held', held)
  else
    redis.call('HDEL', main, 'held')
  end
  trim = math.min(complete, trim)
  if trim > 0 then
    redis.call('XTRIM', main .. ':changes', 'MINID', '~', string.format('%.0f-0', trim + 1))
  end
  return 1
end

local answers = {}
for i = 1, #KEYS do
  local fine, answer = pcall(write, KEYS[i], cmsgpack.unpack(ARGV[i]))
  if not fine then
    answer = type(answer) == 'table' and answer.err or tostring(answer)
  end
  answers[i] = answer
end
return answers
