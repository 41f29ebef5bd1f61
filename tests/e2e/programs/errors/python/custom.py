class InsufficientFunds(Exception):
    pass

def pay():
    raise InsufficientFunds

pay()
