#include <optional>
int main() {
    std::optional<int> o;
    return o.value();
}
