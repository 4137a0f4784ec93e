/* SPDX-License-Identifier: MIT */
/*
 * chart - inline SVG for the HTML report: rows of bars, with spread or in parts, and one of lines.
 *
 * Colours are classes of the page's style sheet: ours, floor, peer, and a number for each part.
 */
#include "bench/report.h"

#include <inttypes.h>

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
	LINE_POINTS = 4, /* 1, 2, 4, 8 readers */
};

struct row {
	const char *label, *class;
	double part[PARTS]; /* drawn one after the other */
	size_t n_parts;
	double min, max; /* spread; 0: none */
	char text[64];
};

struct rows {
	struct row row[BARS_MAX];
	size_t n;
};

static const char *class_of(const struct bench_bar *bar)
{
	static const char *const classes[] = {
		[BAR_SCAN] = "scan",
		[BAR_STORE] = "store",
		[BAR_FLOOR] = "floor",
		[BAR_PEER] = "peer",
	};

	return classes[bar->kind];
}

static double row_end(const struct row *r)
{
	double sum = 0;

	for (size_t i = 0; i < r->n_parts; i++)
		sum += r->part[i];
	return sum;
}

/* The least of 1, 2, 5 times a power of ten that `ticks` steps of reach v. */
static double nice_step(double v, unsigned ticks)
{
	static const double steps[] = { 1, 2, 5 };
	double power = 1;

	if (v <= 0)
		return 1;
	while (power * 10 * ticks < v)
		power *= 10;
	while (power * ticks > v * 10)
		power /= 10;
	for (;; power *= 10)
		for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
			if (steps[i] * power * ticks >= v)
				return steps[i] * power;
}

/* A long outlier must not squeeze the rest: its whisker is cut at the edge. */
static double scale_of(const struct rows *rows)
{
	double end = 0, spread = 0;

	for (size_t i = 0; i < rows->n; i++) {
		end = MAX(end, row_end(&rows->row[i]));
		spread = MAX(spread, rows->row[i].max);
	}
	return nice_step(MAX(end, MIN(spread, end * 1.3)), TICKS);
}

static void draw_axis(FILE *out, double step, double x_per_unit, size_t n_rows)
{
	int bottom = TOP + (int)n_rows * ROW;

	for (int i = 0; i <= TICKS; i++) {
		double x = PLOT_X + step * i * x_per_unit;

		(void)fprintf(out,
		              "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>"
		              "<text class=\"tick\" x=\"%.1f\" y=\"%d\">%.*f</text>\n",
		              x, TOP - 4, x, bottom, x, TOP - 10, step < 1 ? 1 : 0, step * i);
	}
}

static void draw_whisker(FILE *out, const struct row *r, double x_per_unit, int middle)
{
	double right = PLOT_X + PLOT_WIDTH;
	double x1 = PLOT_X + r->min * x_per_unit, x2 = MIN(PLOT_X + r->max * x_per_unit, right);

	(void)fprintf(out, "<path class=\"whisker\" d=\"M%.1f %dH%.1fM%.1f %dv8M%.1f %dv8\"/>\n",
	              x1, middle, x2, x1, middle - 4, x2, middle - 4);
}

static void draw_row(FILE *out, const struct row *r, double x_per_unit, int y)
{
	double x = PLOT_X, end = PLOT_X + MAX(row_end(r), r->max) * x_per_unit;
	int middle = y + ROW / 2;

	(void)fprintf(out, "<text class=\"label\" x=\"%d\" y=\"%d\">", LABEL_X, middle + 4);
	grid_html_text(out, r->label);
	(void)fputs("</text>\n", out);
	for (size_t i = 0; i < r->n_parts; i++) {
		double width = r->part[i] * x_per_unit;

		(void)fprintf(out,
		              "<rect class=\"%s p%zu\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
		              "height=\"%d\"><title>",
		              r->class, i, x, middle - BAR / 2, MAX(width, 0.5), BAR);
		grid_html_text(out, r->label);
		(void)fprintf(out, ": %.6g</title></rect>\n", r->part[i]);
		x += width;
	}
	if (r->max > 0)
		draw_whisker(out, r, x_per_unit, middle);
	(void)fprintf(out, "<text class=\"value\" x=\"%.1f\" y=\"%d\">%s</text>\n",
	              MIN(end, PLOT_X + PLOT_WIDTH) + 8, middle + 4, r->text);
}

static void draw_rows(FILE *out, const char *title, const struct rows *rows)
{
	double step = scale_of(rows), x_per_unit = PLOT_WIDTH / (step * TICKS);

	(void)fprintf(out, "<svg role=\"img\" viewBox=\"0 0 %d %d\"><title>%s</title>\n", WIDTH,
	              TOP + (int)rows->n * ROW + 6, title);
	draw_axis(out, step, x_per_unit, rows->n);
	for (size_t i = 0; i < rows->n; i++)
		draw_row(out, &rows->row[i], x_per_unit, TOP + (int)i * ROW);
	(void)fputs("</svg>\n", out);
}

static struct row *add_row(struct rows *rows, const struct bench_bar *bar)
{
	struct row *r = &rows->row[rows->n++];

	*r = (struct row){ .label = bar->label, .class = class_of(bar), .n_parts = 1 };
	return r;
}

void chart_wall(const struct bench *b, FILE *out)
{
	struct rows rows = { .n = 0 };

	for (size_t i = 0; i < b->n_bars; i++) {
		struct bench_median m = bench_median(&b->bar[i]);
		struct row *r;

		if (m.wall_ms <= 0)
			continue;
		r = add_row(&rows, &b->bar[i]);
		r->part[0] = m.wall_ms;
		r->min = m.min_ms;
		r->max = m.max_ms;
		(void)snprintf(r->text, sizeof(r->text), "%.1f", m.wall_ms);
	}
	draw_rows(out, "Wall time in ms: median, and from the shortest to the longest", &rows);
}

void chart_memory(const struct bench *b, FILE *out)
{
	struct rows rows = { .n = 0 };

	for (size_t i = 0; i < b->n_bars; i++) {
		struct bench_median m = bench_median(&b->bar[i]);
		struct row *r;

		if (m.rss_kb == 0)
			continue;
		r = add_row(&rows, &b->bar[i]);
		r->part[0] = (double)m.rss_kb / 1024;
		(void)snprintf(r->text, sizeof(r->text), "%.1f", r->part[0]);
	}
	draw_rows(out, "Peak memory in MB", &rows);
}

void chart_calls(const struct bench *b, FILE *out)
{
	struct rows rows = { .n = 0 };

	for (size_t i = 0; i < b->n_bars; i++) {
		const struct bench_bar *bar = &b->bar[i];
		const struct bench_counts *c = &bar->counts;
		bool parts = bar->kind == BAR_SCAN || bar->kind == BAR_STORE;
		struct row *r;

		if (!parts && bar->strace_calls == 0)
			continue;
		r = add_row(&rows, bar);
		r->part[0] = (double)bar->strace_calls;
		if (parts) {
			r->class = "calls";
			r->n_parts = PARTS;
			r->part[0] = (double)c->openat;
			r->part[1] = (double)c->statx;
			r->part[2] = (double)c->getdents;
			r->part[3] = (double)c->close;
		}
		(void)snprintf(r->text, sizeof(r->text), "%.0f", row_end(r));
	}
	draw_rows(out, "System calls", &rows);
}

/* -- lines ----------------------------------------------------------------------------------- */

struct line {
	const char *kind, *class, *label;
	double y[LINE_POINTS];
};

static double line_x(unsigned i)
{
	return PLOT_X + 40 + i * 130.0;
}

static void draw_line(FILE *out, const struct line *l, double per_unit)
{
	int bottom = TOP + LINES_HEIGHT;
	unsigned last = 0;

	(void)fprintf(out, "<polyline class=\"line %s\" points=\"", l->class);
	for (unsigned i = 0; i < LINE_POINTS; i++)
		if (l->y[i] > 0)
			(void)fprintf(out, "%.1f,%.1f ", line_x(i), bottom - l->y[i] * per_unit);
	(void)fputs("\"/>\n", out);
	for (unsigned i = 0; i < LINE_POINTS; i++)
		if (l->y[i] > 0) {
			last = i;
			(void)fprintf(out,
			              "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\">"
			              "<title>%s: %.1f ms</title></circle>\n",
			              l->class, line_x(i), bottom - l->y[i] * per_unit, l->label,
			              l->y[i]);
		}
	(void)fprintf(out, "<text class=\"value\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
	              line_x(last) + 10, bottom - l->y[last] * per_unit + 4, l->label);
}

static void draw_line_axes(FILE *out, double step, double per_unit)
{
	int bottom = TOP + LINES_HEIGHT;

	for (int i = 0; i <= TICKS; i++) {
		double y = bottom - step * i * per_unit;

		(void)fprintf(out,
		              "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
		              "<text class=\"label\" x=\"%d\" y=\"%.1f\">%.0f ms</text>\n",
		              PLOT_X, y, PLOT_X + PLOT_WIDTH, y, LABEL_X, y + 4, step * i);
	}
	for (unsigned i = 0; i < LINE_POINTS; i++)
		(void)fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\">%u reader%s</text>\n",
		              line_x(i), bottom + 18, 1u << i, i ? "s" : "");
}

void chart_scaling(const struct bench *b, FILE *out)
{
	struct line lines[] = {
		{ .kind = "store", .class = "store", .label = "scan and store" },
		{ .kind = "scan", .class = "scan", .label = "scan only" },
		{ .kind = "floor", .class = "floor", .label = "floor" },
	};
	double largest = 0, step, per_unit;

	for (size_t k = 0; k < ARRAY_SIZE(lines); k++)
		for (unsigned i = 0; i < LINE_POINTS; i++) {
			char key[32];
			const struct bench_bar *bar;

			(void)snprintf(key, sizeof(key), "%s-%u", lines[k].kind, 1u << i);
			bar = bench_find_bar(b, key);
			lines[k].y[i] = bar ? bench_median(bar).wall_ms : 0;
			largest = MAX(largest, lines[k].y[i]);
		}
	step = nice_step(largest, TICKS);
	per_unit = LINES_HEIGHT / (step * TICKS);
	(void)fprintf(
		out,
		"<svg role=\"img\" viewBox=\"0 0 %d %d\"><title>Wall time by readers</title>\n",
		WIDTH, TOP + LINES_HEIGHT + 28);
	draw_line_axes(out, step, per_unit);
	for (size_t k = 0; k < ARRAY_SIZE(lines); k++)
		draw_line(out, &lines[k], per_unit);
	(void)fputs("</svg>\n", out);
}
