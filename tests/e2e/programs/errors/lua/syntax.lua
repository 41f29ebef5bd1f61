local x = 1
if x == 1 the
  print(x)
end
