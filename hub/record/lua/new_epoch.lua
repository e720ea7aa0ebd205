-- Give a context a new epoch, because its record lost something. Who comes first wins: the others know another epoch than
-- it has then.
--
-- KEYS  the context's main hash.
-- ARGV  what the names of channels end with (see row.lua), the epoch that it has as the node knows it, the new one.
-- Answers 1, or 0 if it has another epoch or is not there.
local main, before, after = KEYS[1], ARGV[2], ARGV[3]
local there = redis.call('HMGET', main, 'epoch', 'last', 'tip', 'closed', 'user_id')
if there[1] ~= before or there[4] then
  return 0
end
redis.call('HSET', main, 'epoch', after)
redis.call('SPUBLISH', main .. ':live' .. ENDING, '1 ' .. after .. ' ' .. there[2] .. ' ' .. there[3] .. ' ' .. there[3] .. '\n')
tell_row(main, after, there[2], there[5])
return 1
