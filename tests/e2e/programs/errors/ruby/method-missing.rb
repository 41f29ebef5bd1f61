class A
  def calculate; end
end
A.new.calcluate
