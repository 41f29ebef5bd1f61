def f(a)
  a / 0
end
f(1)
