echo hi
foobarbaz 1
