#include <missing/thing.hpp>
int main() {}
