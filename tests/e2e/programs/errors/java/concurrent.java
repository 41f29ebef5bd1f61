import java.util.*;

public class Main {
    public static void main(String[] args) {
        List<Integer> l = new ArrayList<>(List.of(1, 2, 3));
        for (Integer i : l) {
            l.remove(i);
        }
    }
}
