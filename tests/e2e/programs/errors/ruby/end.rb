def f
  if true
    1
end
