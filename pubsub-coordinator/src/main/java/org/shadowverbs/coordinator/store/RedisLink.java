// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisCommandTimeoutException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SocketOptions;
import io.lettuce.core.SslOptions;
import io.lettuce.core.SslVerifyMode;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.DefaultClientResources;
import java.io.File;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * A connection to a Redis or Valkey server, over which scripts are run one after the other. It is made when it is needed, and
 * anew after it broke or the server has not answered for a while. What was sent over an old connection may then still be done,
 * also later than what is sent over the new one. For one thread; {@link #close} for any.
 */
final class RedisLink implements AutoCloseable {
    private static final Duration ANSWER = Duration.ofSeconds(2);
    private static final Duration CONNECT = Duration.ofSeconds(2);
    /** From the connection to the server's first answer, with TLS and the password between. */
    private static final Duration GREETING = Duration.ofSeconds(5);
    /** After so long without an answer the connection may be dead. */
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final int THREADS = 2;
    /** Of the client and its network library: what users are to know the exceptions say. Held, for else their levels are forgotten. */
    private static final List<Logger> SILENCED = List.of(Logger.getLogger("io.lettuce"), Logger.getLogger("io.netty"));

    static {
        SILENCED.forEach(logger -> logger.setLevel(Level.OFF));
        System.setProperty("slf4j.internal.verbosity", "ERROR");
        // The JDK warns of it, and little is sent.
        System.setProperty("io.netty.noUnsafe", "true");
    }

    private final StorePlace place;
    private final ClientResources resources;
    private final RedisClient client;
    private StatefulRedisConnection<String, byte[]> connection;
    /** When the server has answered last, or a connection was made. */
    private long answered;

    RedisLink(final StorePlace place) throws StoreException {
        this.place = place;
        if (!place.ca().isEmpty() && !new File(place.ca()).canRead()) {
            throw new StoreException("the certificates " + place.ca() + " of the store can't be read");
        }
        resources = DefaultClientResources.builder().ioThreadPoolSize(THREADS).computationThreadPoolSize(THREADS).build();
        final RedisURI.Builder uri = RedisURI.builder().withHost(place.host()).withPort(place.port())
                .withDatabase(place.database()).withTimeout(GREETING).withSsl(place.tls());
        if (place.tls()) {
            uri.withVerifyPeer(SslVerifyMode.FULL);
        }
        if (!place.password().isEmpty()) {
            if (place.user().isEmpty()) {
                uri.withPassword(place.password().toCharArray());
            } else {
                uri.withAuthentication(place.user(), place.password().toCharArray());
            }
        }
        client = RedisClient.create(resources, uri.build());
        final ClientOptions.Builder options = ClientOptions.builder().autoReconnect(false).protocolVersion(ProtocolVersion.RESP2)
                .socketOptions(SocketOptions.builder().connectTimeout(CONNECT).keepAlive(true).build());
        if (!place.ca().isEmpty()) {
            options.sslOptions(SslOptions.builder().jdkSslProvider().trustManager(new File(place.ca())).build());
        }
        client.setOptions(options.build());
    }

    StorePlace place() {
        return place;
    }

    /** Runs a script. @throws StoreException there is no answer, or an error in its place */
    @SuppressWarnings("unchecked")
    List<Object> run(final String script, final List<String> keys, final byte[]... arguments) throws StoreException {
        try {
            final StatefulRedisConnection<String, byte[]> open = connection();
            final Object answer = open.sync().eval(script, ScriptOutputType.MULTI, keys.toArray(new String[0]), arguments);
            answered = System.nanoTime();
            return (List<Object>) answer;
        } catch (RedisCommandExecutionException e) {
            answered = System.nanoTime();
            throw new StoreException("the store at " + place + " refuses: " + refusal(e.getMessage()), e, true);
        } catch (RedisCommandTimeoutException e) {
            if (System.nanoTime() - answered > PATIENCE_NANOS) {
                disconnect();
            }
            throw new StoreException("the store at " + place + " does not answer", e);
        } catch (RedisException e) {
            disconnect();
            throw new StoreException("the store at " + place + " does not answer: " + why(e), e);
        }
    }

    private synchronized StatefulRedisConnection<String, byte[]> connection() {
        if (connection == null || !connection.isOpen()) {
            disconnect();
            connection = client.connect(RedisCodec.of(StringCodec.UTF8, ByteArrayCodec.INSTANCE));
            connection.setTimeout(ANSWER);
            answered = System.nanoTime();
        }
        return connection;
    }

    private synchronized void disconnect() {
        if (connection != null) {
            connection.closeAsync();
            connection = null;
        }
    }

    /** Redis adds the name and line of the script. */
    private static String refusal(final String message) {
        return message.replaceFirst("\\.? script: .*", "");
    }

    private static String why(final Throwable e) {
        Throwable cause = e;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause.getMessage() == null ? cause.getClass().getSimpleName() : refusal(cause.getMessage());
    }

    @Override
    public void close() {
        client.shutdownAsync(0, 0, TimeUnit.MILLISECONDS); // with its connections
        resources.shutdown(0, 0, TimeUnit.MILLISECONDS);
    }
}
