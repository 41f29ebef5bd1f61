local function f(t)
  return t.x.y
end
f({})
