//! Claims about the proxy.

use super::*;

/// A server that answers each byte with the next one, and a proxy to it.
async fn echo() -> (Proxy, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            open.spawn(async move {
                while let Ok(byte) = stream.read_u8().await {
                    if stream.write_u8(byte + 1).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    (Proxy::to(to).await.unwrap(), tasks)
}

async fn ask(stream: &mut TcpStream, byte: u8) -> Option<u8> {
    stream.write_u8(byte).await.ok()?;
    answer(stream).await
}

async fn answer(stream: &mut TcpStream) -> Option<u8> {
    let read = tokio::time::timeout(Duration::from_millis(300), stream.read_u8());
    read.await.ok()?.ok()
}

#[tokio::test]
async fn a_lost_answer_leaves_the_request_delivered_and_a_mend_cuts_the_hole() {
    let (proxy, _server) = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut stream, 1).await, Some(2));
    proxy.set(Mode::LoseAnswers);
    assert_eq!(ask(&mut stream, 5).await, None);
    assert_eq!(proxy.lost_bytes(), 1);
    proxy.set(Mode::Carry);
    assert_eq!(ask(&mut stream, 7).await, None);
    let mut next = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut next, 7).await, Some(8));
}

#[tokio::test]
async fn a_stall_loses_nothing() {
    let (proxy, _server) = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.set(Mode::Stall);
    assert_eq!(ask(&mut stream, 1).await, None);
    proxy.set(Mode::Carry);
    assert_eq!(answer(&mut stream).await, Some(2));
}

#[tokio::test]
async fn a_cut_ends_connections_and_refuses_new_ones_until_it_is_mended() {
    let (proxy, _server) = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut stream, 1).await, Some(2));
    proxy.set(Mode::Cut);
    assert_eq!(ask(&mut stream, 1).await, None);
    if let Ok(mut refused) = TcpStream::connect(proxy.address()).await {
        assert_eq!(ask(&mut refused, 1).await, None);
    }
    proxy.set(Mode::Carry);
    let mut next = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut next, 7).await, Some(8));
}
