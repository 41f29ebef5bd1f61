local function d(z)
  return 1 // z
end
print(d(0))
