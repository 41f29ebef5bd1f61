#include <string>
int main() {
    std::string s = 5;
}
