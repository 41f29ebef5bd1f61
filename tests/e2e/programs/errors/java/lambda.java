import java.util.*;
public class Main {
    interface Op { int apply(int a, int b); }
    public static void main(String[] args) {
        Map<String, Op> ops = new HashMap<>();
        ops.put("div", (a, b) -> a / b);
        System.out.println(ops.get("div").apply(1, 0));
    }
}
