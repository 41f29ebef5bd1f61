from decimal import Decimal
x = Decimal("abc")
