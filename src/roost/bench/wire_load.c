/* Both ends of the gateway benchmark, quick enough not to be what is measured.

   wire_load stub PORT EVENTS GAP_US [STREAMS EVENTS_EACH]
       An upstream server. POST with "stream":true gets EVENTS server-sent events, each written by a
       write of its own, GAP_US apart, then [DONE]; any other POST gets 1 KiB of JSON; GET gets a
       list of one model. One thread, epoll. It kills itself when so many STREAMS have had so many
       EVENTS_EACH.

   wire_load load PORT CONNECTIONS SECONDS KEY stream|json
       A closed-loop client: every connection asks again as soon as it has its answer. Prints one
       line of JSON. One thread, epoll.

   wire_load rate PORT PER_S SECONDS KEY stream|json
       An open-loop client: a request every 1/PER_S seconds, on a connection that is idle or on a
       new one, whatever has become of those before. What has no answer GRACE_S after the last one
       was due is a failure. Prints the same line.

   Latencies are in microseconds from when the request was due, which in a closed loop is when it is
   written: `first` to the first byte of the body, `total` to the end of the answer.  */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FD = 4096, BUFFER = 65536, MAX_SAMPLES = 4000000, GRACE_S = 2 };

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void tune(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static struct sockaddr_in local(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static void watch(int epoll, int fd, int add)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(epoll, add ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &e) < 0)
        die("epoll_ctl");
}

/* ---- the stub ---- */

struct served {
    char in[BUFFER];
    int used;
    int left; /* events still to write, -1 when idle */
    int64_t due_ns;
};

static struct served *served[MAX_FD];
static char chunk[512], last[128], json[2048], models[512];
static int chunk_len, last_len, json_len, models_len, events_max, deadly_streams, deadly_events;
static int64_t gap_ns;

static const char STREAM[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                             "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";

static int whole(char *out, int size, const char *body)
{
    return snprintf(out, size,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    "Content-Length: %zu\r\n\r\n%s",
                    strlen(body), body);
}

static void prepare(void)
{
    const char *event = "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":"
                        "\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"stub\","
                        "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},"
                        "\"finish_reason\":null}]}\n\n";
    const char *done = "data: [DONE]\n\n";
    char body[1400];
    chunk_len = snprintf(chunk, sizeof chunk, "%zx\r\n%s\r\n", strlen(event), event);
    last_len = snprintf(last, sizeof last, "%zx\r\n%s\r\n0\r\n\r\n", strlen(done), done);
    snprintf(body, sizeof body,
             "{\"id\":\"chatcmpl-0\",\"object\":\"chat.completion\",\"created\":1700000000,"
             "\"model\":\"stub\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
             "\"content\":\"%0800d\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,"
             "\"completion_tokens\":64,\"total_tokens\":73}}",
             0);
    json_len = whole(json, sizeof json, body);
    models_len = whole(models, sizeof models,
                       "{\"object\":\"list\",\"data\":[{\"id\":\"stub\",\"object\":\"model\","
                       "\"created\":1700000000,\"owned_by\":\"stub\"}]}");
}

static void hang_up(int fd)
{
    free(served[fd]);
    served[fd] = NULL;
    close(fd);
}

static int put(int fd, const char *data, int size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd full = {.fd = fd, .events = POLLOUT};
            poll(&full, 1, 1000);
            continue;
        }
        if (n <= 0)
            return -1;
        data += n;
        size -= n;
    }
    return 0;
}

/* Write what is due on a connection; -1 when it is gone. */
static int step(int fd, int64_t now)
{
    struct served *c = served[fd];
    while (c->left >= 0 && c->due_ns <= now) {
        int bad = c->left ? put(fd, chunk, chunk_len) : put(fd, last, last_len);
        if (bad)
            return -1;
        c->left -= 1;
        c->due_ns += gap_ns;
    }
    return 0;
}

/* End at once, without a word to anybody, if that is due. */
static void die_in_time(void)
{
    int streams = 0;
    for (int fd = 0; fd < MAX_FD; fd++)
        streams += served[fd] && served[fd]->left >= 0 &&
                   events_max - served[fd]->left >= deadly_events;
    if (streams >= deadly_streams)
        raise(SIGKILL);
}

/* Answer one request if it is whole; 1 if it was, 0 if not, -1 when the connection is gone. */
static int serve_one(int fd)
{
    struct served *c = served[fd];
    char *end = memmem(c->in, c->used, "\r\n\r\n", 4);
    if (!end)
        return 0;
    *end = 0;
    char *length = strcasestr(c->in, "\r\ncontent-length:");
    int body = length ? atoi(length + 17) : 0, head = end - c->in + 4;
    *end = '\r';
    if (c->used < head + body)
        return 0;
    int post = !memcmp(c->in, "POST", 4);
    int stream = post && (memmem(c->in + head, body, "\"stream\":true", 13) ||
                          memmem(c->in + head, body, "\"stream\": true", 14));
    memmove(c->in, c->in + head + body, c->used - head - body);
    c->used -= head + body;
    if (!stream)
        return put(fd, post ? json : models, post ? json_len : models_len) ? -1 : 1;
    if (put(fd, STREAM, sizeof STREAM - 1))
        return -1;
    c->left = events_max;
    c->due_ns = now_ns();
    return step(fd, c->due_ns) ? -1 : 1;
}

static void receive(int fd)
{
    struct served *c = served[fd];
    ssize_t n = read(fd, c->in + c->used, BUFFER - c->used);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        hang_up(fd);
        return;
    }
    c->used += n;
    int more = 1;
    while (more == 1 && c->left < 0)
        more = serve_one(fd);
    if (more < 0)
        hang_up(fd);
}

static void accept_all(int listener, int epoll)
{
    int fd;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        if (fd >= MAX_FD) {
            close(fd);
            continue;
        }
        tune(fd);
        served[fd] = calloc(1, sizeof(struct served));
        served[fd]->left = -1;
        watch(epoll, fd, 1);
    }
}

/* Write everything that is due and set the timer to what is due next. */
static void run_streams(int timer)
{
    int64_t now = now_ns(), next = INT64_MAX;
    for (int fd = 0; fd < MAX_FD; fd++) {
        if (!served[fd] || served[fd]->left < 0)
            continue;
        if (step(fd, now))
            hang_up(fd);
        else if (served[fd]->left >= 0 && served[fd]->due_ns < next)
            next = served[fd]->due_ns;
    }
    struct itimerspec at = {0};
    if (next != INT64_MAX) {
        at.it_value.tv_sec = next / 1000000000;
        at.it_value.tv_nsec = next % 1000000000;
    }
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
}

static void stub(int port, int events, int gap_us)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, epoll = epoll_create1(0);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct sockaddr_in at = local(port);
    socklen_t size = sizeof at;
    events_max = events;
    gap_ns = (int64_t)gap_us * 1000;
    prepare();
    prctl(PR_SET_TIMERSLACK, 1);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&at, size) || listen(listener, 1024))
        die("listen");
    getsockname(listener, (struct sockaddr *)&at, &size);
    printf("{\"port\":%d}\n", ntohs(at.sin_port));
    fflush(stdout);
    fcntl(listener, F_SETFL, O_NONBLOCK);
    watch(epoll, listener, 1);
    watch(epoll, timer, 1);
    for (;;) {
        struct epoll_event ready[64];
        int n = epoll_wait(epoll, ready, 64, -1);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            uint64_t ticks;
            if (fd == listener)
                accept_all(listener, epoll);
            else if (fd == timer)
                (void)!read(timer, &ticks, sizeof ticks);
            else if (served[fd])
                receive(fd);
        }
        run_streams(timer);
        if (deadly_streams)
            die_in_time();
    }
}

/* ---- the client ---- */

struct asking {
    char tail[16]; /* the end of what was read before, for marks that span reads */
    int tail_used;
    char head[4096];
    int head_used;
    int in_body, failed;
    long length; /* bytes of body still to come, -1 for chunked */
    int64_t sent_ns, first_ns;
};

static struct asking *asking[MAX_FD];
static char request[4096];
static int request_len;
static long requests, failures, events_seen, waiting;
static int idle[MAX_FD], idle_count, port_asked, client_epoll;
static float *first_us, *total_us;

static int dial(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = local(port);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at))
        die("connect");
    tune(fd);
    return fd;
}

static int connected(void)
{
    int fd = dial(port_asked);
    if (fd >= MAX_FD)
        die("too many connections");
    asking[fd] = calloc(1, sizeof(struct asking));
    watch(client_epoll, fd, 1);
    return fd;
}

static void leave(int fd)
{
    watch(client_epoll, fd, 0);
    close(fd);
    free(asking[fd]);
    asking[fd] = NULL;
}

/* Ask on a connection, or on a new one where the server has closed that meanwhile. */
static void ask(int fd, int64_t due_ns)
{
    for (int tries = 0; write(fd, request, request_len) != request_len; tries++) {
        if (tries == 3)
            die("write");
        leave(fd);
        fd = connected();
    }
    memset(asking[fd], 0, sizeof(struct asking));
    asking[fd]->length = -1;
    asking[fd]->sent_ns = due_ns;
    waiting++;
}

/* Count an answer; the connection has nothing to do then. */
static void on_done(int fd)
{
    struct asking *c = asking[fd];
    int64_t now = now_ns();
    if (c->failed) {
        failures++;
    } else if (requests < MAX_SAMPLES) {
        first_us[requests] = (c->first_ns - c->sent_ns) / 1000.0f;
        total_us[requests] = (now - c->sent_ns) / 1000.0f;
        requests++;
    }
    c->sent_ns = 0;
    waiting--;
}

/* Look at a piece of body; 1 when the answer is whole. */
static int on_body(struct asking *c, const char *data, int size)
{
    char window[16 + BUFFER];
    if (!size)
        return 0;
    if (!c->first_ns)
        c->first_ns = now_ns();
    memcpy(window, c->tail, c->tail_used);
    memcpy(window + c->tail_used, data, size);
    int all = c->tail_used + size;
    /* Marks that ended inside the old tail have been counted. */
    for (char *at = window; (at = memmem(at, window + all - at, "data:", 5)); at += 5)
        if (at + 5 - window > c->tail_used)
            events_seen++;
    int ended = all >= 7 && !memcmp(window + all - 7, "\r\n0\r\n\r\n", 7);
    int keep = all < 6 ? all : 6;
    memcpy(c->tail, window + all - keep, keep);
    c->tail_used = keep;
    if (c->length < 0)
        return ended;
    c->length -= size;
    return c->length <= 0;
}

static int on_bytes(struct asking *c, char *data, int size)
{
    if (c->in_body)
        return on_body(c, data, size);
    int room = (int)sizeof c->head - 1 - c->head_used, take = size < room ? size : room;
    memcpy(c->head + c->head_used, data, take);
    int before = c->head_used;
    c->head_used += take;
    c->head[c->head_used] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end)
        return 0;
    end[2] = 0;
    c->failed = !strstr(c->head, " 200 ");
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    c->length = length ? atol(length + 17) : -1;
    c->in_body = 1;
    int used = (int)(end + 4 - c->head) - before;
    return on_body(c, data + used, size - used);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float quantile(float *sorted, double q)
{
    return requests ? sorted[(long)(q * (requests - 1))] : 0;
}

static void report(double seconds)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    double cpu = use.ru_utime.tv_sec + use.ru_stime.tv_sec +
                 (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
    qsort(first_us, requests, sizeof(float), by_value);
    qsort(total_us, requests, sizeof(float), by_value);
    printf("{\"requests\":%ld,\"failures\":%ld,\"events\":%ld,\"seconds\":%.4f,\"client_cpu_s\":%.3f,"
           "\"first_p50_us\":%.1f,\"first_p99_us\":%.1f,\"total_p50_us\":%.1f,"
           "\"total_p99_us\":%.1f}\n",
           requests, failures, events_seen, seconds, cpu, quantile(first_us, 0.5),
           quantile(first_us, 0.99), quantile(total_us, 0.5), quantile(total_us, 0.99));
}

static void prepare_client(int port, const char *key, int stream)
{
    char body[1200];
    int size = snprintf(body, sizeof body,
                        "{\"model\":\"stub\",\"stream\":%s,\"max_tokens\":64,\"messages\":[{\"role\":"
                        "\"user\",\"content\":\"%0900d\"}]}",
                        stream ? "true" : "false", 0);
    port_asked = port;
    client_epoll = epoll_create1(0);
    request_len = snprintf(request, sizeof request,
                           "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                           "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
                           "Accept: */*\r\nUser-Agent: wire-load\r\nContent-Length: %d\r\n\r\n%s",
                           port, key, size, body);
    first_us = malloc(MAX_SAMPLES * sizeof(float));
    total_us = malloc(MAX_SAMPLES * sizeof(float));
}

/* Read what a connection has: 1 when its answer is whole, -1 when it is closed. */
static int look(int fd)
{
    static char in[BUFFER];
    ssize_t got = read(fd, in, sizeof in);
    if (got > 0)
        return asking[fd]->sent_ns && on_bytes(asking[fd], in, got);
    return got == 0 || errno != EAGAIN ? -1 : 0;
}

/* Count a connection that is closed under a request, and let it go. */
static void on_closed(int fd)
{
    if (asking[fd]->sent_ns) {
        failures++;
        waiting--;
    }
    leave(fd);
}

static int load(int port, int connections, double seconds, const char *key, int stream)
{
    prepare_client(port, key, stream);
    for (int i = 0; i < connections; i++)
        ask(connected(), now_ns());
    int64_t start = now_ns(), stop = start + (int64_t)(seconds * 1e9);
    while (now_ns() < stop) {
        struct epoll_event ready[64];
        int n = epoll_wait(client_epoll, ready, 64, 100);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd, seen = look(fd);
            if (seen > 0) {
                on_done(fd);
                ask(fd, now_ns());
            } else if (seen < 0) {
                on_closed(fd);
                ask(connected(), now_ns());
            }
        }
    }
    report((now_ns() - start) / 1e9);
    return 0;
}

static void rest(int fd)
{
    idle[idle_count++] = fd;
}

static void forget(int fd)
{
    for (int i = 0; i < idle_count; i++)
        if (idle[i] == fd)
            idle[i] = idle[--idle_count];
}

static int rate(int port, double per_s, double seconds, const char *key, int stream)
{
    prepare_client(port, key, stream);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    watch(client_epoll, timer, 1);
    int64_t start = now_ns(), every = (int64_t)(1e9 / per_s), due = start;
    int64_t last_due = start + (int64_t)(seconds * 1e9), stop = last_due + GRACE_S * 1000000000LL;
    while (now_ns() < stop && (due < last_due || waiting)) {
        for (; due < last_due && due <= now_ns(); due += every)
            ask(idle_count ? idle[--idle_count] : connected(), due);
        int64_t next = due < last_due ? due : stop;
        struct itimerspec at = {.it_value = {next / 1000000000, next % 1000000000}};
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
        struct epoll_event ready[64];
        int n = epoll_wait(client_epoll, ready, 64, 100);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            uint64_t ticks;
            if (fd == timer) {
                (void)!read(timer, &ticks, sizeof ticks);
                continue;
            }
            int seen = look(fd);
            if (seen > 0) {
                on_done(fd);
                rest(fd);
            } else if (seen < 0) {
                forget(fd);
                on_closed(fd);
            }
        }
    }
    failures += waiting;
    report((now_ns() - start) / 1e9);
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 7 && !strcmp(argv[1], "stub")) {
        deadly_streams = atoi(argv[5]);
        deadly_events = atoi(argv[6]);
    }
    if ((argc == 5 || argc == 7) && !strcmp(argv[1], "stub"))
        stub(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
    if (argc == 7 && !strcmp(argv[1], "load"))
        return load(atoi(argv[2]), atoi(argv[3]), atof(argv[4]), argv[5],
                    !strcmp(argv[6], "stream"));
    if (argc == 7 && !strcmp(argv[1], "rate") && atof(argv[3]) > 0)
        return rate(atoi(argv[2]), atof(argv[3]), atof(argv[4]), argv[5],
                    !strcmp(argv[6], "stream"));
    fprintf(stderr, "usage: wire_load stub PORT EVENTS GAP_US [STREAMS EVENTS_EACH] | "
                    "wire_load load PORT CONNECTIONS SECONDS KEY stream|json | "
                    "wire_load rate PORT PER_S SECONDS KEY stream|json\n");
    return 2;
}
