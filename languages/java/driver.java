// SPDX-License-Identifier: Apache-2.0
//
// Compiles a program and finds the class with its main(), which javac and the launcher want to know from the names of
// files. Arguments: the file to write what the launcher is to be told (class path and class), then the source files, the
// code itself first. Classes go to .cay/classes. Exit status 1: it does not compile, and stderr says why.
//
// It is compiled anew in each run, so it is kept small: every class that it names takes time.
import com.sun.source.util.*;
import java.io.*;
import java.util.*;
import javax.lang.model.element.*;
import javax.tools.*;

class Driver {
    /** A source file in which a public class may have any name; what describes a package has its own. */
    static class Source extends ForwardingJavaFileObject<JavaFileObject> {
        Source(JavaFileObject file) {
            super(file);
        }

        @Override
        public boolean isNameCompatible(String name, Kind kind) {
            return name.endsWith("-info") ? super.isNameCompatible(name, kind) : kind == Kind.SOURCE;
        }
    }

    /** Looks at each class once its types are known. Better are those of the code itself, then those that are in no
     * other class, then public ones; of equals the first. */
    static class Finder implements TaskListener {
        JavacTask task;
        String code, name;
        int best = -1;

        boolean isMain(Element e) {
            String text = e.toString();
            return (text.equals("main(java.lang.String[])") || text.equals("main(java.lang.String...)"))
                && e.getModifiers().contains(Modifier.PUBLIC) && e.getModifiers().contains(Modifier.STATIC);
        }

        void look(TypeElement type, int rank) {
            int own = rank + (type.getModifiers().contains(Modifier.PUBLIC) ? 1 : 0);
            for (Element e : type.getEnclosedElements())
                if (e instanceof TypeElement) {
                    look((TypeElement) e, rank & 4);
                } else if (own > best && isMain(e)) {
                    best = own;
                    name = task.getElements().getBinaryName(type).toString();
                }
        }

        @Override
        public void finished(TaskEvent event) {
            if (event.getKind() == TaskEvent.Kind.ANALYZE && event.getTypeElement() != null)
                look(event.getTypeElement(), event.getSourceFile().getName().equals(code) ? 6 : 2);
        }
    }

    /** Classes, files that came with the code (resources) and libraries among them, and where the program starts. */
    static String classPath(String classes, File here, String code) {
        StringBuilder path = new StringBuilder(classes + ':' + here + ":.");
        if (new File(code).getParent() != null) // in the workspace
            path.append(':').append(new File(code).getParent());
        for (String name : here.list())
            if (name.endsWith(".jar"))
                path.append(':').append(here).append('/').append(name);
        return path.toString();
    }

    public static void main(String[] args) throws IOException {
        File here = new File("").getAbsoluteFile();
        String classes = here + "/.cay/classes";
        String[] names = Arrays.copyOfRange(args, 1, args.length);
        String path = classPath(classes, here, names[0]);
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StandardJavaFileManager files = compiler.getStandardFileManager(null, null, null);
        List<JavaFileObject> sources = new ArrayList<JavaFileObject>();
        for (JavaFileObject file : files.getJavaFileObjects(names))
            sources.add(new Source(file));
        new File(classes).mkdir();

        Finder finder = new Finder();
        finder.code = names[0];
        finder.task = (JavacTask) compiler.getTask(new PrintWriter(System.err, true), files, null,
            List.of("-proc:none", "-cp", path, "-d", classes), null, sources);
        finder.task.addTaskListener(finder);
        if (!finder.task.call())
            System.exit(1);
        if (finder.name == null) {
            System.err.println(names[0] + ": error: no class has a public static void main(String[])");
            System.exit(1);
        }
        try (Writer out = new FileWriter(args[0])) {
            String quoted = path.replace("\\", "\\\\").replace("\"", "\\\"");
            out.write("-cp \"" + quoted + "\"\n" + finder.name + "\n");
        }
    }
}
