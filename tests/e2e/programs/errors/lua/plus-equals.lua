local t = { 1, 2, 3 }
for i, v in ipairs(t) do
  v += 1
  print(v)
end
