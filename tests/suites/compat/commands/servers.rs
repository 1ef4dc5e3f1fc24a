//! Servers that answer a client, which runs natively.

use crate::Case;

use super::{shell, small_file_and};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "redis",
            &["redis-server", "--port", "0", "--unixsocket", "socket", "--save", "", "--logfile", "log", "--maxmemory", "8mb"],
        )
        .ignoring("log")
        .with_client(
            "until [ -S socket ]; do sleep 0.02; done; alias r='redis-cli -s socket'
             r set a 1; r incrbyfloat a 0.25; r lpush l x y z; r lrange l 0 -1; r zadd s 1.5 p 0.5 q; r zrange s 0 -1 withscores
             r eval 'return redis.call(\"get\", KEYS[1]) .. #ARGV' 1 a b c; r geoadd g 13.36 38.11 P 15.08 37.5 C; r geodist g P C
             for i in 1 2 3 4 5 6 7 8; do r set k$i $i; done; r dbsize; r shutdown nosave",
        ),
        Case::new("nginx", &["nginx", "-p", ".", "-c", "nginx.conf", "-e", "error.log"])
            .prepared(small_file_and(
                "mkdir -p t; cat > nginx.conf <<'END'
daemon off; master_process off; pid nginx.pid; error_log error.log; events { }
http { access_log off; gzip on; gzip_min_length 1; gzip_types *; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;
server { listen unix:socket; root .; } }
END",
            ))
            .ignoring("error.log")
            .ignoring("nginx.pid")
            .with_client(
                "until [ -S socket ]; do sleep 0.02; done; alias c='curl -s --unix-socket socket'
                 c http://x/lines | md5sum; c --compressed -o /dev/null -w '%{http_code} %{size_download}\\n' http://x/lines
                 c -r 10-30 http://x/lines; c -w '%{http_code}\\n' -o /dev/null http://x/missing; kill -QUIT $(cat nginx.pid)",
            ),
        Case::new("python3-http-server", &["/usr/bin/python3", "server.py"])
            .prepared(shell(
                "cat > server.py <<'END'
import http.server, socketserver, threading
class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): daemon_threads = True
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(self.path[::-1].encode())
        if self.path == '/stop': threading.Thread(target=server.shutdown).start()
    def log_message(self, *arguments): pass
    def address_string(self): return ''
server = Server('socket', Handler); server.serve_forever()
END",
            ))
            .with_client(
                "until [ -S socket ]; do sleep 0.02; done; for p in a bc def stop; do curl -s --unix-socket socket http://x/$p; echo; done",
            ),
    ]
}
