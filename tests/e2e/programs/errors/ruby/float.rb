puts (0.0 / 0).to_i
