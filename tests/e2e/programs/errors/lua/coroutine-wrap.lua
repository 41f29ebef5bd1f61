local gen = coroutine.wrap(function()
  for i = 1, 3 do
    if i == 2 then error("bad item " .. i) end
    coroutine.yield(i)
  end
end)
for i in gen do print(i) end
