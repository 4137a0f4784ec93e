/* SPDX-License-Identifier: MIT */
/*
 * chart - inline SVG for the HTML report: columns of the tables as rows of bars, and as lines.
 *
 * Colours are classes of the page's style sheet: the kind of a bar, and a number for each part.
 */
#include "bench/report.h"

#include <math.h>

enum {
	LABEL_X = 178, /* labels end here */
	PLOT_X = 186,
	PLOT_WIDTH = 600,
	WIDTH = 900,
	ROW = 24,
	BAR = 14,
	TOP = 26,
	PARTS = 4,
	TICKS = 5,
	LINES_HEIGHT = 240,
};

/* One bar a row; rows with nothing are left out. */
struct chart {
	const char *heading, *title;
	const char *part[PARTS]; /* keys of columns: drawn one after the other */
	const char *otherwise;   /* of rows that have no such columns */
	const char *min, *max;   /* spread */
	int digits;
	double unit;
	struct {
		const char *color, *text;
	} legend[6];
};

/* clang-format off */
#define KINDS { { "scan", "scan only" }, { "store", "scan and store" }, \
	{ "floor", "the least possible: minimal loop" }, { "peer", "other programs" } }

static const struct chart wall = {
	"Wall time, ms", "Wall time in ms: median, and from the shortest to the longest",
	{ "wall_ms" }, NULL, "wall_ms_min", "wall_ms_max", 1, 1, KINDS };

static const struct chart calls = {
	"System calls", "System calls", { "openat", "statx", "getdents64", "close" }, "strace_calls", NULL, NULL, 0, 1,
	{ { "p0", "openat" }, { "p1", "statx" }, { "p2", "getdents64" }, { "p3", "close" },
	  { "peer", "all calls of another program" }, { "floor", "all calls of the minimal loop" } } };

static const struct chart memory = {
	"Peak memory, MB", "Peak memory in MB", { "peak_rss_kb" }, NULL, NULL, NULL, 1, 1024, KINDS };
/* clang-format on */

/* -- scales ---------------------------------------------------------------------------------- */

/* The least of 1, 2, 5 times a power of ten that TICKS steps of reach v. */
static double nice_step(double v)
{
	double power = v > 0 ? pow(10, floor(log10(v / TICKS))) : 1;

	return power * (power * TICKS >= v       ? 1
	                : 2 * power * TICKS >= v ? 2
	                : 5 * power * TICKS >= v ? 5
	                                         : 10);
}

static bool is_drawn(const struct column *c, const struct bench_bar *bar)
{
	return !c->kinds || (c->kinds & bar->kind);
}

/* The parts of a row, and their sum. Of rows that have no such columns: the other one. */
static double get_parts(const struct chart *ch, const struct table *t, const struct bench_bar *bar,
                        double part[static PARTS], size_t *n)
{
	double sum = 0;

	*n = 0;
	for (size_t i = 0; i < PARTS && ch->part[i]; i++) {
		const struct column *c = table_column(t, ch->part[i]);

		if (!is_drawn(c, bar) && i == 0 && ch->otherwise)
			c = table_column(t, ch->otherwise);
		if (!is_drawn(c, bar))
			continue;
		part[*n] = column_number(c, bar) / ch->unit;
		sum += part[(*n)++];
	}
	return sum;
}

static double number(const struct table *t, const char *key, const struct bench_bar *bar)
{
	return key ? column_number(table_column(t, key), bar) : 0;
}

/* A long outlier must not squeeze the rest: its whisker is cut at the edge. */
static double step_of(const struct chart *ch, const struct table *t, size_t *n_drawn)
{
	double end = 0, spread = 0, part[PARTS], sum;
	size_t n;

	*n_drawn = 0;
	for (size_t i = 0; i < t->n_rows; i++) {
		sum = get_parts(ch, t, table_row(t, i), part, &n);
		*n_drawn += sum > 0;
		end = MAX(end, sum);
		spread = MAX(spread, number(t, ch->max, table_row(t, i)));
	}
	return nice_step(MAX(end, MIN(spread, end * 1.3)));
}

/* -- rows of bars ---------------------------------------------------------------------------- */

static void put_text(struct text *out, const char *class, double x, double y, const char *s)
{
	text_printf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
	table_html(out, s);
	text_puts(out, "</text>\n");
}

static void put_line(struct text *out, double x1, double y1, double x2, double y2)
{
	text_printf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
	            x1, y1, x2, y2);
}

static void begin(struct text *out, const char *title, size_t height)
{
	text_printf(out, "<svg role=\"img\" viewBox=\"0 0 %d %zu\"><title>%s</title>\n", WIDTH,
	            height, title);
}

static void put_bar(struct text *out, const struct chart *ch, const struct table *t,
                    const struct bench_bar *bar, double scale, int middle)
{
	double part[PARTS], right = PLOT_X + PLOT_WIDTH, x = PLOT_X, max = number(t, ch->max, bar);
	size_t n;
	double sum = get_parts(ch, t, bar, part, &n);
	char label[64];

	put_text(out, "label", LABEL_X, middle + 4, bar->label);
	for (size_t i = 0; i < n; i++) {
		text_printf(out,
		            "<rect class=\"%s p%zu\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
		            "height=\"%d\"><title>",
		            n > 1 ? "calls" : bar->kind_name, i, x, middle - BAR / 2,
		            MAX(part[i] * scale, 0.5), BAR);
		table_html(out, bar->label);
		text_printf(out, ": %.6g</title></rect>\n", part[i]);
		x += part[i] * scale;
	}
	if (max > 0)
		text_printf(out,
		            "<path class=\"whisker\" "
		            "d=\"M%.1f %dH%.1fM%.1f %dv8M%.1f %dv8\"/>\n",
		            PLOT_X + number(t, ch->min, bar) * scale, middle,
		            MIN(PLOT_X + max * scale, right),
		            PLOT_X + number(t, ch->min, bar) * scale, middle - 4,
		            MIN(PLOT_X + max * scale, right), middle - 4);
	(void)snprintf(label, sizeof(label), "%.*f", ch->digits, sum);
	put_text(out, "value", MIN(PLOT_X + MAX(sum, max) * scale, right) + 8, middle + 4, label);
}

static void put_legend(struct text *out, const struct chart *ch, size_t n)
{
	text_puts(out, "<p class=\"note\">");
	for (size_t i = 0; i < n && ch->legend[i].color; i++)
		text_printf(out, "<span class=\"key\" style=\"background:var(--%s)\"></span>%s",
		            ch->legend[i].color, ch->legend[i].text);
	text_puts(out, "</p>\n");
}

static void put_chart(const struct chart *ch, const struct report *r, struct text *out)
{
	const struct table *t = r->bars;
	double step, part[PARTS];
	size_t n, at = 0;

	step = step_of(ch, t, &n);
	text_printf(out, "<h2>%s</h2>\n", ch->heading);
	/* All calls of a process are counted by strace only. */
	put_legend(out, ch, r->bench->options.verify ? ARRAY_SIZE(ch->legend) : 4);
	begin(out, ch->title, TOP + n * ROW + 6);
	for (int i = 0; i <= TICKS; i++) {
		double x = PLOT_X + (double)PLOT_WIDTH / TICKS * i;
		char tick[32];

		(void)snprintf(tick, sizeof(tick), "%.*f", step < 1 ? 1 : 0, step * i);
		put_line(out, x, TOP - 4, x, TOP + (int)n * ROW);
		put_text(out, "tick", x, TOP - 10, tick);
	}
	for (size_t i = 0; i < t->n_rows; i++)
		if (get_parts(ch, t, table_row(t, i), part, &n) > 0)
			put_bar(out, ch, t, table_row(t, i), PLOT_WIDTH / (step * TICKS),
			        TOP + (int)at++ * ROW + ROW / 2);
	text_puts(out, "</svg>\n");
}

/* -- lines ----------------------------------------------------------------------------------- */

static double line_x(size_t i)
{
	return PLOT_X + 40 + (double)i * 130;
}

/* One line for each column with a key, which is its class. */
static void put_points(struct text *out, const struct table *t, const struct column *c,
                       double scale)
{
	double x = 0, y = 0, ms;
	char label[64];

	(void)snprintf(label, sizeof(label), "%.*s", (int)strlen(c->title) - 3, c->title);
	text_printf(out, "<polyline class=\"line %s\" points=\"", c->key);
	for (size_t i = 0; i < t->n_rows; i++)
		if ((ms = column_number(c, table_row(t, i))) > 0)
			text_printf(out, "%.1f,%.1f ", line_x(i), TOP + LINES_HEIGHT - ms * scale);
	text_puts(out, "\"/>\n");
	for (size_t i = 0; i < t->n_rows; i++)
		if ((ms = column_number(c, table_row(t, i))) > 0) {
			x = line_x(i);
			y = TOP + LINES_HEIGHT - ms * scale;
			text_printf(out,
			            "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\">"
			            "<title>%s: %.1f ms</title></circle>\n",
			            c->key, x, y, label, ms);
		}
	put_text(out, "value", x + 10, y + 4, label);
}

static void put_scaling(const struct table *t, struct text *out)
{
	double largest = 0, step, bottom = TOP + LINES_HEIGHT;
	char label[32];

	for (size_t i = 0; i < t->n_columns * t->n_rows; i++)
		if (t->columns[i % t->n_columns].key)
			largest = MAX(largest, column_number(&t->columns[i % t->n_columns],
			                                     table_row(t, i / t->n_columns)));
	step = nice_step(largest);
	text_puts(out, "<h2>Wall time by number of readers</h2>\n");
	begin(out, "Wall time by readers", TOP + LINES_HEIGHT + 28);
	for (int i = 0; i <= TICKS; i++) {
		double y = bottom - (double)LINES_HEIGHT / TICKS * i;

		(void)snprintf(label, sizeof(label), "%.0f ms", step * i);
		put_line(out, PLOT_X, y, PLOT_X + PLOT_WIDTH, y);
		put_text(out, "label", LABEL_X, y + 4, label);
	}
	for (size_t i = 0; i < t->n_rows; i++) {
		(void)snprintf(label, sizeof(label), "%u reader%s", 1u << i, i ? "s" : "");
		put_text(out, "tick", line_x(i), bottom + 18, label);
	}
	for (size_t i = 0; i < t->n_columns; i++)
		if (t->columns[i].key)
			put_points(out, t, &t->columns[i], LINES_HEIGHT / (step * TICKS));
	text_puts(out, "</svg>\n");
}

void chart_all(const struct report *r, struct text *out)
{
	put_chart(&wall, r, out);
	put_scaling(r->scaling, out);
	put_chart(&calls, r, out);
	put_chart(&memory, r, out);
}
