import warnings

warnings.simplefilter("error", DeprecationWarning)


def old():
    warnings.warn("old() is going away; use new()", DeprecationWarning, stacklevel=2)


old()
