-- Reserve room for an upload, among all uploads that have not expired.
--
-- KEYS  the hash of uploads: id -> 'expiry in ms since 1970, bytes'.
-- ARGV  now in ms, id, its expiry in ms, its bytes so far, the most bytes that all may have.
-- Answers 1, or 0 if there is no room; then nothing of it is reserved any more.
local now, total = tonumber(ARGV[1]), 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local expires, bytes = string.match(all[i + 1], '^(%d+),(%d+)$')
  if not expires or tonumber(expires) <= now then
    redis.call('HDEL', KEYS[1], all[i])
  elseif all[i] ~= ARGV[2] then
    total = total + tonumber(bytes)
  end
end
if total + tonumber(ARGV[4]) > tonumber(ARGV[5]) then
  redis.call('HDEL', KEYS[1], ARGV[2])
  return 0
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3] .. ',' .. ARGV[4])
return 1
