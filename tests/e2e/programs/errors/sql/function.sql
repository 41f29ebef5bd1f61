SELECT nofunction(1);
