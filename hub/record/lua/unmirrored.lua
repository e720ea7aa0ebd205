-- Which of many contexts may be left behind: their hashes lack something, or their run is active.
--
-- KEYS  the contexts' main hashes.
-- Answers the places of these contexts among the keys; one that cannot be read is none of them.
local found = {}
for i, main in ipairs(KEYS) do
  local there = redis.pcall('HMGET', main, 'epoch', 'closed', 'last', 'mirrored', 'held', 'running') -- of an error all are nil
  if there[1] and not there[2] and (there[3] ~= there[4] or there[5] or there[6] == 'true') then
    found[#found + 1] = i
  end
end
return found
