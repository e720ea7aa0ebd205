-- A node shows that it lives.
--
-- KEYS  the hash of nodes: node -> 'ms since 1970 INFO', the time by this server's clock, the info packed.
-- ARGV  the node, its info.
-- Answers the time now, and the whole hash.
local time = redis.call('TIME')
local now = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
redis.call('HSET', KEYS[1], ARGV[1], now .. ' ' .. ARGV[2])
return {now, redis.call('HGETALL', KEYS[1])}
