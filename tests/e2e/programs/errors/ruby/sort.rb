p [3, "a", nil].sort
