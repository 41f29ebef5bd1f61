class Account
  class InsufficientFunds < StandardError
    def initialize(msg = "no money") = super
  end
  def withdraw(n)
    raise InsufficientFunds if n > 0
  end
end
Account.new.withdraw(5)
