-- Append an entry to each of many contexts. Each stands alone: one's trouble is its own outcome.
--
-- KEYS  the contexts' main hashes. A context's other keys have longer names and are in the same slot.
-- ARGV  [1] what the names of channels end with (see row.lua), [2] bytes that a message on a live channel may have,
--       [3] bytes of missed entries that an answer may carry;
--       then for each context a head, a msgpack list of texts (few arguments are cheap for the hub), and the changes, packed;
--       no changes only compare. The head:
--         1-3  epoch, last, tip: where its writer stands
--         4    born: the epoch that the writer's context was made with, '' if it does not know
--         5    flags: c create, r create in place of what is there, x the changes close the context
--         6-7  the entry's id, and the seq of its last change
--         8    since: what a context that is written anew has all of, '' if it is not
--         9    with c and x the key of the request that created it, '' if it has none: the tombstone keeps it
--         10-  plain fields of the main hash, each followed by '=text', or '-' to take it away
-- Answers for each context {outcome, flag, owner before, missed entries} or {'failed', reason}. The flag is 1 with missed
-- entries if there are more of them; with 'appended' it is the mark of the first other writer that was stale since the last
-- entry.
local largest, room = tonumber(ARGV[2]), tonumber(ARGV[3])
local PARTS = {':state', ':output', ':data', ':log', ':keys'}
local TOMBSTONE = 3600
local FAREWELL = 8 -- entries that a tombstone keeps, for who follows the context and learns from them how it ended

-- Who appends, as the mark of one that was stale: the ids of its entries begin alike. Packed, as all but plain fields are.
local function writer_of(id)
  return cmsgpack.pack({1, string.match(id, '^(.*)%.') or id})
end

local function missed(stream, seq)
  local entries, bytes, more = {}, 0, 0
  for i, entry in ipairs(redis.call('XRANGE', stream, string.format('%.0f-0', seq + 1), '+', 'COUNT', 65)) do
    bytes = bytes + #entry[2][6]
    if i > 1 and (i > 64 or bytes > room) then
      more = 1
      break
    end
    entries[i] = entry
  end
  return entries, more
end

local function forget(main)
  for _, name in ipairs(PARTS) do
    redis.call('UNLINK', main .. name)
  end
  redis.call('DEL', main)
end

local function append(main, head, changes)
  local stream = main .. ':changes'
  local epoch, last, tip, born, flags, id, new_last, since, key = unpack(head, 1, 9)
  local there = redis.call('HMGET', main, 'epoch', 'last', 'tip', 'born', 'closed', 'user_id', 'wanted', 'type', 'made_by')
  local owner = there[6] or ''
  local creates, closes = string.find(flags, 'c'), string.find(flags, 'x')
  local anew = born ~= '' and born ~= epoch
  local wanted = not creates and there[7]
  if creates then
    if there[5] and (anew or (key ~= '' and key == there[9])) then
      return {'removed', 0, '', {}}
    elseif there[1] and not there[5] then
      if there[1] == epoch then
        local entries, more = missed(stream, 0)
        return {'exists', more, owner, entries}
      elseif not string.find(flags, 'r') then
        return {'exists', 0, owner, {}}
      end
    end
    if there[1] then
      forget(main)
      redis.call('UNLINK', stream)
    end
  elseif not there[1] then
    return {'missing', 0, '', {}}
  elseif there[5] and there[1] == epoch and (born == '' or born == there[4]) then
    local entries, more = missed(stream, tonumber(last)) -- what else happened, and how it ended
    return {'removed', more, '', entries}
  elseif there[5] or (born ~= '' and born ~= there[4]) then
    return {'removed', 0, '', {}}
  elseif there[1] ~= epoch then
    return {'epoch', 0, owner, {}}
  elseif there[2] ~= last or there[3] ~= tip then
    local entries, more = missed(stream, tonumber(last))
    if changes ~= '' and not there[7] then
      redis.pcall('HSET', main, 'wanted', writer_of(id)) -- a server that takes no writes now need not keep it
    end
    return {'stale', more, owner, entries}
  end
  if changes == '' then
    return {'appended', 0, owner, {}}
  end
  redis.call('XADD', stream, new_last .. '-0', 'id', id, 'before', tip, 'changes', changes)
  if closes then
    forget(main)
    redis.call('HSET', main, 'epoch', epoch, 'last', new_last, 'tip', id, 'born', there[4] or epoch, 'closed', '')
    if key ~= '' then
      redis.call('HSET', main, 'made_by', key)
    end
    redis.call('EXPIRE', main, TOMBSTONE)
    redis.call('XTRIM', stream, 'MAXLEN', FAREWELL)
    redis.call('EXPIRE', stream, TOMBSTONE)
  elseif creates then
    redis.call('HSET', main, 'epoch', epoch, 'last', new_last, 'tip', id, 'born', anew and born or epoch, 'mirrored', '0')
    if since ~= '' then
      redis.call('HSET', main, 'since', cmsgpack.pack({1, since}))
    end
  else
    redis.call('HSET', main, 'last', new_last, 'tip', id)
    if wanted then
      redis.call('HDEL', main, 'wanted')
    end
  end
  for i = 10, #head, 2 do
    local value = head[i + 1]
    if string.sub(value, 1, 1) == '=' then
      redis.call('HSET', main, head[i], string.sub(value, 2))
    else
      redis.call('HDEL', main, head[i])
    end
  end
  -- A message that is too large for the subscribers' buffers would end their connections; they read the stream instead.
  local message = '1 ' .. epoch .. ' ' .. new_last .. ' ' .. id .. ' ' .. tip .. '\n'
  if #changes <= largest then
    message = message .. changes
  end
  redis.call('SPUBLISH', main .. ':live' .. ENDING, message)
  if closes then
    tell_gone(main, epoch, new_last, there[8], there[6])
  elseif #head > 9 then
    tell_row(main, epoch, new_last, there[6])
  end
  return {'appended', wanted and wanted ~= writer_of(id) and wanted or 0, owner, {}}
end

local answers = {}
for i = 1, #KEYS do
  local fine, answer = pcall(append, KEYS[i], cmsgpack.unpack(ARGV[2 * i + 2]), ARGV[2 * i + 3])
  if not fine then
    answer = {'failed', type(answer) == 'table' and answer.err or tostring(answer)}
  end
  answers[i] = answer
end
return answers
