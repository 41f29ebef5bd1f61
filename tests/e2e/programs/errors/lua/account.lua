local Account = {}
Account.__index = Account
function Account.new(b) return setmetatable({balance=b}, Account) end
function Account:withdraw(n)
  if n > self.balance then
    error("insufficient funds", 0)
  end
end
Account.new(1):withdraw(5)
