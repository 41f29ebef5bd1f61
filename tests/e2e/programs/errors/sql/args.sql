SELECT abs(1, 2);
