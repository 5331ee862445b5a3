"""Are our BV files BV files? WebGraph itself (Java, law.di.unimi.it) reads what `portolan export graph --format
webgraph` wrote, row by row and by its offsets, and must find the links that `--format tsv` lists.

    mvn dependency:copy-dependencies -DoutputDirectory=jars     # of a pom with it.unimi.dsi:webgraph:3.6.10
    python3 tests/outside/webgraph.py target/release/portolan jars GRAPH...

Needs Java. GRAPH is whatever `portolan export graph` takes.
"""

import pathlib
import subprocess
import sys
import tempfile

READER = """
import it.unimi.dsi.webgraph.*;
import java.io.*;

public class Reader {
    public static void main(String[] arguments) throws Exception {
        try (PrintWriter out = new PrintWriter(new BufferedWriter(new FileWriter(arguments[1])))) {
            if (arguments[2].equals("in order")) {
                NodeIterator rows = ImmutableGraph.loadOffline(arguments[0]).nodeIterator();
                while (rows.hasNext()) {
                    int from = rows.nextInt();
                    write(out, from, rows.successorArray(), rows.outdegree());
                }
            } else {
                ImmutableGraph graph = ImmutableGraph.load(arguments[0]);
                long arcs = 0;
                for (int from = graph.numNodes() - 1; from >= 0; from--) {
                    write(out, from, graph.successorArray(from), graph.outdegree(from));
                    arcs += graph.outdegree(from);
                }
                if (arcs != graph.numArcs()) throw new Exception("arcs: " + arcs + ", said: " + graph.numArcs());
            }
        }
    }

    static void write(PrintWriter out, int from, int[] to, int degree) {
        for (int i = 0; i < degree; i++) out.println(from + "\\t" + to[i]);
    }
}
"""


def export(portolan, graph, form, out):
    subprocess.run([portolan, "export", "graph", graph, "--format", form, "--out", out],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def links(path):
    with open(path) as file:
        return sorted(line for line in file)


def main():
    portolan, jars, graphs = sys.argv[1], sys.argv[2], sys.argv[3:]
    wrong = 0
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "Reader.java").write_text(READER)
        for graph in graphs:
            export(portolan, graph, "webgraph", place / "bv")
            export(portolan, graph, "tsv", place / "tsv")
            ours = links(place / "tsv" / "edges.tsv")
            for way in ["in order", "by offsets"]:
                subprocess.run(["java", "-cp", f"{jars}/*", place / "Reader.java", place / "bv" / "graph",
                                place / "theirs.tsv", way], check=True, stderr=subprocess.DEVNULL)
                same = links(place / "theirs.tsv") == ours
                wrong += not same
                print(f"{graph}, {way}: {len(ours)} links, {'the same' if same else 'DIFFERENT'}")
    sys.exit(1 if wrong else 0)


main()
