#include "front.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fibers.h"

bool front_available(void)
{
    return system("command -v nghttpx >/dev/null 2>&1 && command -v openssl >/dev/null 2>&1") == 0;
}

void front_certify(struct front *front)
{
    static const char script[] =
        "cd %s && exec 2>/dev/null && k='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes' && "
        "openssl req -x509 $k -keyout ca.key -out ca.pem -subj /CN=test-ca -days 30 && "
        "openssl req $k -keyout s.key -out s.csr -subj /CN=test && "
        "echo subjectAltName=IP:127.0.0.1,DNS:api.example.test >good && "
        "echo subjectAltName=DNS:other.example.test >other && "
        "sign() { openssl x509 -req -in s.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 "
        "-extfile $1 -out $2; } && sign good good.pem && sign other other.pem && "
        "openssl x509 -req -in s.csr -signkey s.key -days 30 -extfile good -out self.pem && "
        /* `openssl x509` of newer releases refuses to end before today. */
        "touch index && echo '[ca]\ndefault_ca=test\n[test]\ndatabase=index\nnew_certs_dir=.\n"
        "serial=ca.srl\ndefault_md=sha256\npolicy=any\n[any]\ncommonName=supplied' >ca.conf && "
        "openssl ca -batch -config ca.conf -cert ca.pem -keyfile ca.key -in s.csr "
        "-extfile good -startdate 20200101000000Z -enddate 20200102000000Z -out expired.pem";
    char command[2048];

    bl_text_into(front->folder, sizeof front->folder, "/tmp/belay-wire-XXXXXX");
    assert_non_null(mkdtemp(front->folder));
    snprintf(command, sizeof command, script, front->folder);
    assert_int_equal(system(command), 0);
    snprintf(front->bundle, sizeof front->bundle, "%s/ca.pem", front->folder);
}

void front_forget(const struct front *front)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", front->folder);
    assert_int_equal(system(command), 0);
}

static uint16_t front_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    close(fd);
    return ntohs(address.sin_port);
}

static bool front_answers(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool yes = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;

    close(fd);
    return yes;
}

void front_start(struct front *front, const char *certificate, uint16_t backend)
{
    char frontend[64], behind[64], key[96], chain[96];

    front->port = front_free_port();
    snprintf(frontend, sizeof frontend, "--frontend=127.0.0.1,%u%s", front->port,
             certificate == NULL ? ";no-tls" : "");
    snprintf(behind, sizeof behind, "--backend=127.0.0.1,%u", backend);
    snprintf(key, sizeof key, "%s/s.key", front->folder);
    snprintf(chain, sizeof chain, "%s/%s", front->folder, certificate != NULL ? certificate : "");
    snprintf(front->url, sizeof front->url, "%s://127.0.0.1:%u/v1",
             certificate != NULL ? "https" : "http", front->port);
    front->pid = fork();
    if (front->pid == 0) {
        int null = open("/dev/null", O_RDWR);
        /* It ends with the test, even if the test crashes. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execlp("nghttpx", "nghttpx", "--conf=/dev/null", "--workers=1", "--single-process",
               "--no-ocsp", "--errorlog-file=/dev/null", "--accesslog-file=/dev/null", frontend,
               behind, certificate != NULL ? key : NULL, chain, NULL);
        _exit(127);
    }
    for (int i = 0; i < 5000 && !front_answers(front->port); i++)
        bl_sleep(2 * BL_NS_PER_MS);
}

void front_stop(struct front *front)
{
    kill(front->pid, SIGKILL);
    waitpid(front->pid, NULL, 0);
}
