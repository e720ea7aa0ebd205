-- Which of many contexts have another end than a node knows, or none.
--
-- KEYS  the contexts' main hashes.
-- ARGV  for each context 'epoch last tip', as the node knows them.
-- Answers the places, from 1, of those that differ.
local different = {}
for i = 1, #KEYS do
  local there = redis.call('HMGET', KEYS[i], 'epoch', 'last', 'tip', 'closed')
  if not there[3] or there[4] or there[1] .. ' ' .. there[2] .. ' ' .. there[3] ~= ARGV[i] then
    different[#different + 1] = i
  end
end
return different
