local function check(n)
  if n < 0 then
    error("negative")
  end
end
check(-1)
