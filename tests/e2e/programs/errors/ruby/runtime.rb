def pay
  raise "not enough money"
end
pay
