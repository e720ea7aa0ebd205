-- What other scripts begin with that tell all nodes rows of the contexts list, on the channel hub:rows. ROW: the fields of one.
--
-- ARGV  [1] of each such script: what the names of channels end with, '' or '@' and the number of the database; the
--       databases of a server share its channels, and who publishes in a script does not know in which one it runs.
local ENDING = ARGV[1]

-- A message is packed as all values are: epoch and last, type, owner, owner before, row as a list of fields and values.
local function publish(main, ...)
  local context = string.sub(main, 10, -2) -- hub:ctx:{ID}
  redis.call('PUBLISH', 'hub:rows' .. ENDING, cmsgpack.pack({1, {context, ...}}))
end

local function tell_row(main, epoch, last, owner_before)
  local there = redis.call('HMGET', main, unpack(ROW))
  local row = {}
  for i, value in ipairs(there) do
    if value then
      row[#row + 1] = ROW[i]
      row[#row + 1] = value
    end
  end
  publish(main, epoch, last, there[3] or '', there[5], owner_before, row)
end

local function tell_gone(main, epoch, last, kind, owner)
  publish(main, epoch, last, kind or '', owner, owner, false)
end

