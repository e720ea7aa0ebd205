-- Which of many contexts have another end than a node knows, or none.
--
-- KEYS  the contexts' main hashes.
-- ARGV  for each context 'epoch last tip', as the node knows them.
-- Answers the places, from 1, of those that differ; one that cannot be read does.
local different = {}
for i = 1, #KEYS do
  local there = redis.pcall('HMGET', KEYS[i], 'epoch', 'last', 'tip', 'closed') -- of an error all four are nil
  if not (there[1] and there[2] and there[3]) or there[4] or there[1] .. ' ' .. there[2] .. ' ' .. there[3] ~= ARGV[i] then
    different[#different + 1] = i
  end
end
return different
