/* plot_run: draws the CSV of train_lm: loss over step and wait over step, as an SVG and as lines of blocks.
 *
 * Steps are drawn in at most as many points as the panel is wide; a point of many steps shows their mean (loss) or
 * their largest (wait), since a wait is interesting where it is long. A vertical line marks where another run of the
 * job went on: the place it was resumed after a kill. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct point {
  double step, loss, wait_ms;
  unsigned run;
} point;

typedef struct series {
  point *points;
  size_t count;
} series;

#define WIDTH 860
#define PANEL_LEFT 70
#define PANEL_WIDTH 760
#define PANEL_HEIGHT 210
#define TREND_POINTS 30 /* the loss of one step jumps with its text: a thick line shows the mean of each 30th */
#define SPARK_WIDTH 60

static bool series_read(const char *path, series *out) {
  FILE *file = fopen(path, "r");
  if (file == NULL) return perror(path), false;
  char line[256];
  size_t capacity = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    point p;
    if (sscanf(line, "%lf,%lf,%lf,%u", &p.step, &p.loss, &p.wait_ms, &p.run) != 4) continue;
    if (out->count == capacity) {
      capacity = capacity > 0 ? 2 * capacity : 1024;
      point *grown = realloc(out->points, capacity * sizeof *grown);
      if (grown == NULL) return fputs("plot_run: no memory\n", stderr), fclose(file), false;
      out->points = grown;
    }
    out->points[out->count++] = p;
  }
  fclose(file);
  if (out->count == 0) fprintf(stderr, "plot_run: %s holds no step; run train_lm with --csv first\n", path);
  return out->count > 0;
}

static double value_of(const point *p, bool wait) { return wait ? p->wait_ms : p->loss; }

/* Bucket b of n over the series: the mean, or the largest. */
static double bucket(const series *s, size_t b, size_t n, bool wait) {
  size_t from = b * s->count / n, to = (b + 1) * s->count / n;
  if (to <= from) to = from + 1;
  double sum = 0, largest = 0;
  for (size_t i = from; i < to && i < s->count; i++) {
    double v = value_of(&s->points[i], wait);
    sum += v;
    largest = v > largest ? v : largest;
  }
  return wait ? largest : sum / (double)(to - from);
}

static size_t bucket_count(const series *s, size_t most) { return s->count < most ? s->count : most; }

/* The first of 1, 2, 5 times a power of ten that cuts the range into at most `parts`. */
static double tick_of(double range, int parts) {
  double tick = pow(10, floor(log10(range / parts)));
  static const double factors[] = {1, 2, 5, 10};
  for (int i = 0; i < 4; i++)
    if (range / (tick * factors[i]) <= parts) return tick * factors[i];
  return tick * 10;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y ? 1 : 0;
}

static bool percentiles(const series *s, double *p50, double *p95) {
  double *waits = malloc(s->count * sizeof *waits);
  if (waits == NULL) return fputs("plot_run: no memory\n", stderr), false;
  for (size_t i = 0; i < s->count; i++) waits[i] = s->points[i].wait_ms;
  qsort(waits, s->count, sizeof *waits, ascending);
  *p50 = waits[s->count / 2];
  *p95 = waits[s->count * 95 / 100];
  free(waits);
  return true;
}

/* One panel. Waits go from microseconds to seconds, so theirs is a logarithmic axis. */
typedef struct panel {
  double top;            /* of the drawing area, px */
  bool wait;
  double low, high;      /* of the axis; logarithms where wait */
  double first, last;    /* steps */
} panel;

static double x_of(const panel *p, double step) {
  return PANEL_LEFT + (p->last > p->first ? (step - p->first) / (p->last - p->first) : 0.5) * PANEL_WIDTH;
}

static double y_of(const panel *p, double v) {
  double at = p->wait ? log10(v > 1e-3 ? v : 1e-3) : v;
  return p->top + PANEL_HEIGHT * (1 - (at - p->low) / (p->high - p->low));
}

static void axis_fit(panel *p, const series *s) {
  double low = INFINITY, high = -INFINITY;
  for (size_t i = 0; i < s->count; i++) {
    double v = value_of(&s->points[i], p->wait);
    if (p->wait) v = log10(v > 1e-3 ? v : 1e-3);
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  if (p->wait) {
    low = floor(low), high = ceil(high);
    if (high <= low) high = low + 1;
  } else {
    double tick = tick_of(high - low > 1e-6 ? high - low : 1, 5);
    low = floor(low / tick) * tick, high = ceil(high / tick) * tick;
    if (high <= low) high = low + tick;
  }
  p->low = low, p->high = high;
}

static void grid_line(FILE *out, const panel *p, double v, double y) {
  fprintf(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"grid\"/>\n", PANEL_LEFT, y,
          PANEL_LEFT + PANEL_WIDTH, y);
  fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", PANEL_LEFT - 8, y + 4, p->wait ? pow(10, v) : v);
}

static void line_draw(FILE *out, const panel *p, const series *s, size_t n, const char *class) {
  fprintf(out, "<polyline class=\"%s\" points=\"", class);
  for (size_t b = 0; b < n; b++)
    fprintf(out, "%.1f,%.1f ", x_of(p, s->points[(2 * b + 1) * s->count / (2 * n)].step),
            y_of(p, bucket(s, b, n, p->wait)));
  fprintf(out, "\"/>\n");
}

static void panel_draw(FILE *out, panel *p, const series *s, const char *title, const char *unit) {
  axis_fit(p, s);
  fprintf(out, "<text x=\"%d\" y=\"%.1f\" class=\"title\">%s</text>\n", PANEL_LEFT, p->top - 12, title);
  double y_tick = p->wait ? 1 : tick_of(p->high - p->low, 5);
  for (int i = 0; i <= (int)lround((p->high - p->low) / y_tick); i++) {
    double v = p->low + i * y_tick;
    grid_line(out, p, v, p->top + PANEL_HEIGHT * (1 - (v - p->low) / (p->high - p->low)));
  }
  double x_tick = p->last > p->first ? tick_of(p->last - p->first, 10) : 1;
  if (x_tick < 1) x_tick = 1;
  for (double step = ceil(p->first / x_tick) * x_tick; step <= p->last; step += x_tick)
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n", x_of(p, step),
            p->top + PANEL_HEIGHT + 18, step);
  fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">step</text>\n", PANEL_LEFT + PANEL_WIDTH / 2,
          p->top + PANEL_HEIGHT + 36);
  fprintf(out, "<text transform=\"translate(16 %.1f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
          p->top + PANEL_HEIGHT / 2.0, unit);
  for (size_t i = 1; i < s->count; i++)
    if (s->points[i].run != s->points[i - 1].run) {
      double x = x_of(p, s->points[i].step);
      fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"resume\"/>\n", x, p->top, x,
              p->top + PANEL_HEIGHT);
      fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"resume\">resumed at %.0f</text>\n", x + 5, p->top + 14,
              s->points[i].step);
    }
  line_draw(out, p, s, bucket_count(s, PANEL_WIDTH), p->wait ? "wait" : "loss");
  if (!p->wait && s->count >= 4 * TREND_POINTS) line_draw(out, p, s, TREND_POINTS, "trend");
}

static bool svg_write(const char *path, const series *s, double p50, double p95) {
  FILE *out = fopen(path, "w");
  if (out == NULL) return perror(path), false;
  fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d 620\" width=\"%d\" height=\"620\" "
               "font-family=\"sans-serif\" font-size=\"12\" fill=\"#444\">\n", WIDTH, WIDTH);
  fputs("<style>.grid{stroke:#e4e4e4}.title{font-size:15px;fill:#111}.loss,.wait,.trend{fill:none;stroke-width:1.3;"
        "stroke-linejoin:round}.loss{stroke:#a9cbe8}.trend{stroke:#1f6fb4;stroke-width:2.5}.wait{stroke:#c4621a}line.resume{stroke:#999;stroke-dasharray:4 3}"
        "text.resume{fill:#777;font-size:11px}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", out);
  panel p = {.top = 46, .first = s->points[0].step, .last = s->points[s->count - 1].step};
  panel_draw(out, &p, s, "Training loss", "loss (nats per token)");
  char title[128];
  snprintf(title, sizeof title, "Wait for the step's data: p50 %.2f ms, p95 %.2f ms", p50, p95);
  p.top = 350;
  p.wait = true;
  panel_draw(out, &p, s, title, "wait (ms, log scale)");
  fputs("</svg>\n", out);
  if (fclose(out) != 0) return perror(path), false;
  return true;
}

static void spark(const series *s, bool wait, const char *name) {
  static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  size_t n = bucket_count(s, SPARK_WIDTH);
  double low = INFINITY, high = -INFINITY;
  for (size_t b = 0; b < n; b++) {
    double v = bucket(s, b, n, wait);
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  printf("%-5s ", name);
  for (size_t b = 0; b < n; b++) {
    double v = bucket(s, b, n, wait);
    double share = wait ? (log10(v + 1e-3) - log10(low + 1e-3)) / (log10(high + 1e-3) - log10(low + 1e-3) + 1e-12)
                        : (v - low) / (high - low + 1e-12);
    int level = (int)(share * 7.999);
    fputs(blocks[level < 0 ? 0 : level > 7 ? 7 : level], stdout);
  }
  if (wait) printf("  %.2f to %.2f ms\n", low, high);
  else printf("  %.3f to %.3f nats per token\n", bucket(s, 0, n, false), bucket(s, n - 1, n, false));
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--help") == 0) {
    puts("usage: plot_run RUN.csv [OUT.svg]\nDraw the loss and the waits that train_lm --csv wrote.");
    return 0;
  }
  if (argc < 2 || argc > 3) return fputs("usage: plot_run RUN.csv [OUT.svg]\n", stderr), 2;
  series s = {NULL, 0};
  double p50 = 0, p95 = 0;
  bool ok = series_read(argv[1], &s) && percentiles(&s, &p50, &p95);
  if (ok && argc == 3) ok = svg_write(argv[2], &s, p50, p95);
  if (ok) {
    spark(&s, false, "loss");
    spark(&s, true, "wait");
    printf("wait p50 %.2f ms, p95 %.2f ms over %zu steps\n", p50, p95, s.count);
  }
  free(s.points);
  return ok ? 0 : 1;
}
