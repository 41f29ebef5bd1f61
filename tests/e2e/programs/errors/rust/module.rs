mod nobody_has;

fn main() {}
