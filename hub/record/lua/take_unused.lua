-- Take contexts out of the index of uses, unless they were used meanwhile. Each is taken once, whoever asks.
--
-- KEYS  the index: when each was used last, in ms since 1970.
-- ARGV  before when, in ms; then the contexts.
-- Answers those that were taken.
local taken = {}
for i = 2, #ARGV do
  local used = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if used and tonumber(used) < tonumber(ARGV[1]) then
    redis.call('ZREM', KEYS[1], ARGV[i])
    taken[#taken + 1] = ARGV[i]
  end
end
return taken
