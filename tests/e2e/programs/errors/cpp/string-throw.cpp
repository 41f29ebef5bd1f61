#include <string>
int main() { throw std::string("text"); }
