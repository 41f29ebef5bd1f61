#include <map>
#include <string>
int main() {
    std::map<std::string, int> m;
    return m.at("a");
}
