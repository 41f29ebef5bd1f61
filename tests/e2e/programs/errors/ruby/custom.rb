module Bank
  class Refused < StandardError; end
end
raise Bank::Refused, "no\ncredit"
