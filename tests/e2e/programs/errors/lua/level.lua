local function check(x)
  error("bad caller", 2)
end
local function main()
  check(1)
end
main()
