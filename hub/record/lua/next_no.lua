-- The number of the next context.
--
-- KEYS  the number of the newest one.
-- ARGV  what the next one is not lower than.
local no = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1]) - 1) + 1
redis.call('SET', KEYS[1], string.format('%.0f', no))
return no
