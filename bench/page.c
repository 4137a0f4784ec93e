/* SPDX-License-Identifier: MIT */
/*
 * page - the HTML report: one page that needs nothing else: no script, no font, no network.
 */
#include "bench/report.h"

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width\">\n"
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	"style-src 'unsafe-inline'; img-src data:\">\n"
	"<link rel=\"icon\" href=\"data:,\">\n"
	"<title>DiskTracker: benchmark</title>\n<style>\n"
	":root{color-scheme:light dark;--text:#1f2328;--dim:#656d76;--back:#fff;--rule:#d0d7de;"
	"--scan:#0969da;--store:#1a7f37;--floor:#8c959f;--peer:#bf8700;"
	"--p0:#0969da;--p1:#1a7f37;--p2:#cf222e;--p3:#8250df}\n"
	"@media(prefers-color-scheme:dark){:root{--text:#e6edf3;--dim:#8d96a0;--back:#0d1117;"
	"--rule:#30363d;--scan:#4493f8;--store:#3fb950;--floor:#6e7681;--peer:#d29922;"
	"--p0:#4493f8;--p1:#3fb950;--p2:#f85149;--p3:#ab7df8}}\n"
	"body{font:15px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);"
	"max-width:1200px;margin:2em auto;padding:0 1.5em}\n"
	"h1{font-size:1.6em;margin:0}h2{font-size:1.2em;margin:2em 0 .5em;"
	"border-bottom:1px solid var(--rule)}\n"
	"p.note,ul.facts{color:var(--dim);font-size:.9em;margin:.4em 0}ul.facts{padding-left:1.2em}\n"
	".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.85em;"
	"font-variant-numeric:tabular-nums}\n"
	"th,td{padding:.25em .7em;text-align:right;border-bottom:1px solid var(--rule);"
	"white-space:nowrap}th.t,td.t{text-align:left}tbody tr:hover{background:#8883}\n"
	"svg{width:100%;max-width:1000px;height:auto;display:block}\n"
	"svg text{font:12px system-ui,sans-serif;fill:var(--text)}\n"
	".label{text-anchor:end}text.tick{text-anchor:middle;fill:var(--dim);font-size:11px}\n"
	".grid{stroke:var(--rule)}.whisker{stroke:var(--text);fill:none;stroke-width:1.2}\n"
	".scan{fill:var(--scan)}.store{fill:var(--store)}.floor{fill:var(--floor)}"
	".peer{fill:var(--peer)}\n"
	".calls.p0{fill:var(--p0)}.calls.p1{fill:var(--p1)}.calls.p2{fill:var(--p2)}"
	".calls.p3{fill:var(--p3)}\n"
	"polyline.line{fill:none;stroke-width:2.5}polyline.scan{stroke:var(--scan)}"
	"polyline.store{stroke:var(--store)}polyline.floor{stroke:var(--floor)}\n"
	".key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em;border-radius:2px}\n"
	"</style>\n</head>\n<body>\n<h1>DiskTracker: benchmark</h1>\n";

void page_put(const struct report *r, struct text *out)
{
	text_puts(out, head);
	text_puts(out, "<ul class=\"facts\">\n");
	table_lines(&r->lines, FORMAT_HTML, false, out);
	text_puts(out, "</ul>\n");
	if (r->bench->rounds > 0)
		chart_all(r, out);
	for (size_t i = 0; i < r->n_tables; i++)
		table_print(&r->table[i], FORMAT_HTML, out);
	text_puts(out, "</body>\n</html>\n");
}
